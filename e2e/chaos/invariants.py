"""What must hold, whatever happened: the promises of the design, each as a look at what the API server ever held, what
really happened in the pods, and how the undisturbed run has ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.history import History
from e2e.chaos.plugins.total import find_end
from e2e.chaos.pods.user_requests import Ask
from e2e.chaos.scenarios.scenario import Scenario
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.checkpoints.upload_waits import WAITING
from podtune.simulation.faults import Fault

Status = Mapping[str, Any]
_OF_EVALUATION = ("step", "attempt", "failures", "disruptions")


@dataclass(frozen=True)
class Run:
    """A run that is over.

    Attributes:
        undisturbed: How the same scenario ended without a fault; None for that run itself.
        repeats_late: Whether the network has sent a request again, long after it was answered.
    """

    scenario: Scenario
    history: History
    truth: GroundTruth
    undisturbed: Ending | None
    repeats_late: bool = False


@dataclass(frozen=True)
class Ending:
    """What must be the same in every run of a scenario, by trial."""

    trials: Mapping[str, Mapping[str, Any]]


def ending(history: History) -> Ending:
    """How a run has ended; names without the experiment's.

    In which order trials were observed must be the same where a searcher learns from that, one trial at a time. Else a
    trial that waits for its next attempt may let another one go first.
    """
    spec = history.experiment.get("spec", {})
    learns = spec.get("search", {}).get("algorithm", "random") != "random"
    return Ending(
        {
            name.partition("-")[2]: _end_of(
                history, name, "observationSeq" if learns and spec.get("maxConcurrentTrials") == 1 else ""
            )
            for name in sorted(history.trials)
        }
    )


def _end_of(history: History, trial: str, order: str) -> Mapping[str, Any]:
    spec = history.trials[trial][-1]["spec"]
    status = history.last(trial)
    decision = status.get("decision") or {}
    return {
        "parameters": spec["parameters"],
        "state": status.get("state"),
        "reason": status.get("reason"),
        "failures": status.get("failures", 0),
        "disruptions": status.get("disruptions", 0),
        "attempt": status.get("attempt"),
        "iteration": status.get("iteration"),
        "best": status.get("bestValue"),
        "last": (status.get("lastResult") or {}).get("value"),
        "rungs": (status.get("scheduler") or {}).get("rungs"),
        "decision": (decision.get("action"), decision.get("step")) if decision else None,
        "checkpoint": (status.get("checkpoint") or {}).get("step"),
        "limits": status.get("limits"),
        "revision": status.get("revision"),
        "observation": status.get(order),
        "evaluation": {what: (status.get("evaluation") or {}).get(what, 0) for what in _OF_EVALUATION},
    }


def each_failure_is_counted_once(run: Run) -> Iterator[str]:
    """Each failure is counted once."""
    for trial in run.history.trials:
        statuses = run.history.statuses(trial)
        for before, after in pairwise(statuses):
            counted = _counted(after) - _counted(before)
            old, new = before.get("lastAttempt") or {}, after.get("lastAttempt") or {}
            if counted not in (0, 1):
                yield f"{trial}: what counts against it went from {_counted(before)} to {_counted(after)}"
            if counted and old.get("uid") == new.get("uid"):
                yield f"{trial}: attempt {new.get('attempt')} was counted again"
            if old.get("attempt", 0) + 1 < new.get("attempt", 0):
                yield f"{trial}: attempt {old.get('attempt', 0) + 1} was passed over"
        index = int(trial.rpartition("-")[2])
        failures = statuses[-1].get("failures", 0)
        if failures != run.scenario.failures(index):
            yield f"{trial}: {failures} failures were counted, and there were {run.scenario.failures(index)}"
        failures, wanted = _of_evaluation(statuses[-1], "failures"), run.scenario.evaluation_failures(index)
        if failures != wanted:
            yield f"{trial}: {failures} failures of its evaluation were counted, and there were {wanted}"


def one_writer_a_trial(run: Run) -> Iterator[str]:
    """At most one accepted writer a trial."""
    highest: dict[str, int] = {}
    for trial, number in run.truth.accepted:
        if number < highest.get(trial, 0):
            yield f"{trial}: a report of attempt {number} was taken in after one of attempt {highest[trial]}"
        highest[trial] = max(number, highest.get(trial, 0))


def no_accepted_checkpoint_is_lost(run: Run) -> Iterator[str]:
    """No accepted checkpoint is lost; an attempt goes on from the last committed step, or a later one."""
    for trial in run.history.trials:
        chosen = {r.back_to for r in run.scenario.requests if r.ask is Ask.RETURN and trial.endswith(f"-{r.index}")}
        # Of a trial that is stopped, all may be let go of.
        statuses = [s for s in run.history.statuses(trial) if not (s.get("decision") or {}).get("discards")]
        steps = [(s.get("checkpoint") or {}).get("step", 0) for s in statuses]
        for before, after in pairwise(steps):
            if after < before and after not in chosen:
                yield f"{trial}: its checkpoint went from step {before} back to {after}"
        for kept in run.history.last(trial).get("checkpoints") or ():
            if kept["uri"] not in run.truth.bucket:
                yield f"{trial}: the checkpoint of step {kept['step']} is recorded, and not in the bucket"
        for attempt in run.truth.of_trial(trial):
            committed = max(run.truth.committed_before(attempt).values(), default=0)
            if chosen and attempt.number > 1:
                committed = min(committed, *chosen)
            if attempt.restored < committed:
                yield f"{trial}: attempt {attempt.number} began at {attempt.restored}, though {committed} was stored"


def no_result_is_lost_or_doubled(run: Run) -> Iterator[str]:
    """No result is lost or doubled, up to the decision that ended its attempt."""
    for trial in run.history.trials:
        statuses = run.history.statuses(trial)
        iterations = [s.get("iteration", 0) for s in statuses]
        if iterations != sorted(iterations):
            yield f"{trial}: its iteration went back: {iterations}"
        attempts = [attempt for attempt in run.truth.of_trial(trial) if not attempt.evaluates]
        reported = {step: value for attempt in attempts for step, value in attempt.values.items()}
        status = statuses[-1]
        if not reported:
            continue
        iteration = status.get("iteration", 0)
        heard = [step for a in attempts for step in a.values if step <= _last_that_counts(statuses, a)]
        if not max(heard, default=0) <= iteration <= max(reported):
            yield f"{trial}: iteration {iteration} is recorded, and {max(reported)} was reported"
        best_of = run.scenario.best_of
        best = best_of((value for step, value in reported.items() if step <= iteration), default=None)
        if scores := [attempt for attempt in run.truth.of_trial(trial) if attempt.evaluates]:
            best = max(scores[-1].values.values(), default=None)  # those before it have failed
        if best is not None and float(status.get("bestValue") or "nan") != best:
            yield f"{trial}: {status.get('bestValue')} is recorded as its best value, and {best} was reported"
        for condition in status.get("conditions") or ():
            if condition["type"] == "ResultsComplete" and condition["status"] == "False":
                yield f"{trial}: results were lost: {condition.get('message')}"


def no_pod_without_a_living_owner(run: Run) -> Iterator[str]:
    """No pod without a living owner, none twice, and no more at a time than asked for."""
    owners = [run.history.experiment, *(versions[-1] for versions in run.history.trials.values())]
    uids = {owner["metadata"]["uid"] for owner in owners}
    for name, pod in run.history.living.items():
        if not any(owner["uid"] in uids for owner in pod["metadata"].get("ownerReferences") or ()):
            yield f"pod {name} has no living owner"
    for name in run.history.alive:
        yield f"pod {name} runs on after the end"
    recorded = {(s.get("pod") or {}).get("uid") for trial in run.history.trials for s in run.history.statuses(trial)}
    for name, made in run.history.pods.items():
        # A create that comes again when its pod has ended makes another: that one must be nobody's, and go.
        again = recorded.intersection(made[1:]) if run.repeats_late else made[1:]
        if again and made[0] in recorded:
            yield f"pod {name} was made {len(made)} times"
    most = run.scenario.concurrent * run.scenario.replicas
    if run.history.most_alive > most:
        yield f"{run.history.most_alive} pods ran at a time; {most} were asked for"


def every_trial_ends(run: Run) -> Iterator[str]:
    """Every trial ends, and stays ended."""
    if run.scenario.total_limit is None and len(run.history.trials) != run.scenario.trials:
        yield f"there are {len(run.history.trials)} trials, not {run.scenario.trials}"
    for trial in run.history.trials:
        statuses = run.history.statuses(trial)
        ends = [s.get("state") for s in statuses if s.get("completionTime")]
        if not ends:
            yield f"{trial}: has not ended: {statuses[-1].get('state')} {statuses[-1].get('message')}"
        if len(set(ends)) > 1:
            yield f"{trial}: ended as {ends[0]}, and then as {ends[-1]}"


def a_stopper_hears_of_each_trial_once(run: Run) -> Iterator[str]:
    """A stopper of another package ends the experiment where the trials say, in the order that they record."""
    if run.scenario.total_limit is None:
        return
    ended = [run.history.last(trial) for trial in run.history.trials]
    told = sorted((status["observationSeq"], float(status["bestValue"])) for status in ended if "bestValue" in status)
    wanted = find_end((value for _, value in told), run.scenario.total_limit)
    conditions = (run.history.experiment.get("status") or {}).get("conditions") or ()
    said = next((each["message"] for each in conditions if each["type"] == "SuccessCriteriaMet"), "")
    if not wanted or said != f"stopped: {wanted}, as stop.experiment[0].plugin asks":
        yield f"the experiment ended as {said!r}, and its trials say {wanted!r}"


def the_end_is_the_undisturbed_one(run: Run) -> Iterator[str]:
    """The end is that of the undisturbed run, decisions included."""
    if run.undisturbed is None or not run.scenario.same_end:
        return
    for name, end in ending(run.history).trials.items():
        wanted = run.undisturbed.trials.get(name)
        if wanted is None:
            yield f"trial {name} is not there in the undisturbed run"
            continue
        cut_short = any(a.cut_short for a in run.truth.attempts if a.trial.partition("-")[2] == name)
        for what, value in end.items():
            if what == "checkpoint" and cut_short:
                continue  # the last one may be lost, and then it is told
            if value != wanted[what]:
                yield f"trial {name}: {what} is {value!r}, and {wanted[what]!r} in the undisturbed run"


def nothing_is_left_in_the_bucket(run: Run) -> Iterator[str]:
    """Nothing is left in the bucket that policy does not keep."""
    kept = {c["uri"] for trial in run.history.trials for c in run.history.last(trial).get("checkpoints") or ()}
    for uri in run.truth.bucket:
        if uri not in kept:
            yield f"{uri} is in the bucket, and is not kept"


def stopped_trials_keep_no_more_than_policy_says(run: Run) -> Iterator[str]:
    """Where stopped trials keep no checkpoint, none is recorded of them in the end, and none is in the bucket."""
    if run.scenario.keeps_stopped:
        return
    stopped = [trial for trial in run.history.trials if run.history.last(trial).get("reason") in STOPPED_REASONS]
    if not stopped:
        yield "no trial was stopped"
    for trial in stopped:
        status = run.history.last(trial)
        if not (status.get("decision") or {}).get("discards"):
            yield f"{trial}: was stopped, and its decision does not say that it keeps nothing"
        recorded = {kept["uri"] for kept in status.get("checkpoints") or ()}
        for uri in sorted(recorded | {uri for uri in run.truth.bucket if f"/{trial}/" in uri}):
            yield f"{trial}: was stopped, and still has {uri}"


def what_is_stored_is_whole(run: Run) -> Iterator[str]:
    """What is stored is whole, file by file, and nothing unfinished is left beside it."""
    yield from run.truth.damaged
    for key in run.truth.unfinished:
        yield f"{key} was never finished, and is left on the volume"


def results_and_output_are_kept_whole(run: Run) -> Iterator[str]:
    """Results and output that the store keeps are read back whole, in order, and each once."""
    if not run.scenario.agent_bytes:
        return
    for attempt in run.truth.attempts:
        pairs = (
            ("results", attempt.values, run.truth.results.get(attempt.uid, [])),
            ("lines", attempt.printed if run.scenario.keeps_logs else (), run.truth.logs.get(attempt.uid, [])),
        )
        for what, wanted, stored in pairs:
            if stored != sorted({*stored}):
                yield f"{attempt.trial}: {what} of attempt {attempt.number} are stored twice or out of order: {stored}"
            lacking = sorted({*wanted} - {*stored})
            if lacking and not attempt.cut_short and not attempt.out_of_time:
                yield f"{attempt.trial}: {what} of attempt {attempt.number} are not in the store: {lacking}"


def the_snapshot_tells_the_end(run: Run) -> Iterator[str]:
    """The store has the Experiment in the end, and tells of each Trial what the cluster does.

    The Experiment's own end is called one when all of that is stored, so the store does not have it.
    """
    if not run.scenario.keeps_snapshots:
        return
    records = run.truth.records
    if not records.get("", {}).get("status"):
        yield "the store does not have the experiment"
    for trial in run.history.trials:
        told, status = records.get(trial, {}).get("status", {}), run.history.last(trial)
        for what in ("state", "reason", "iteration", "bestValue", "attempt", "failures", "checkpoint"):
            if (told.get(what) or None) != (status.get(what) or None):
                yield f"{trial}: {what} is {told.get(what)!r} in the store, and {status.get(what)!r} in the cluster"


def the_newest_checkpoint_is_stored_or_told_as_lost(run: Run) -> Iterator[str]:
    """The newest checkpoint that was reported before an attempt's end is stored, or told as lost; no other is told."""
    total = 0
    for trial in run.history.trials:
        told = _told_losses(run.history.statuses(trial))
        total += len(told)
        for attempt in run.truth.of_trial(trial):
            if attempt.ended == Fault.VANISHED.value:
                continue  # it has left no word
            lost, said = _lost_by(run, attempt), told.get(attempt.number, 0)
            if lost and not said:
                yield f"{trial}: attempt {attempt.number} has lost the checkpoint of step {lost}, and nobody was told"
            elif lost != said:
                stored = max(_stored_by(run, attempt), default=0)
                yield f"{trial}: attempt {attempt.number} is said to have lost step {said}; {stored} is stored"
        yield from _untold(trial, run.history.statuses(trial), len(told))
    yield from _miscounted(run.history.experiment.get("status") or {}, total)


def _lost_by(run: Run, attempt: AttemptTruth) -> int:
    """Step of the newest checkpoint that an attempt has lost; 0 where it has lost none that anybody misses.

    Where it was stopped or paused, what it has reported afterwards is no loss, unless the pause is left with nothing.
    Of a trial that keeps none, none is.
    """
    stored = max(_stored_by(run, attempt), default=0)
    missing = [step for step in attempt.reported if step > stored]
    if not missing:
        return 0
    decision = _decision_on(run.history.statuses(attempt.trial), attempt.number)
    if decision is not None and decision.get("discards"):
        return 0
    if decision is None or min(missing) <= attempt.restored + decision["seq"]:
        return max(missing)
    left_with_nothing = decision["action"] == "PAUSE" and stored < decision["step"]
    return max(missing) if left_with_nothing else 0


def _stored_by(run: Run, attempt: AttemptTruth) -> set[int]:
    """Steps of the checkpoints of an attempt that have come to be in the bucket."""
    recorded = {c["uri"]: c["step"] for s in run.history.statuses(attempt.trial) for c in s.get("checkpoints") or ()}
    found = {**recorded, **run.truth.bucket}
    own = {step for uri, step in found.items() if f"/{attempt.trial}/{attempt.uid}/" in uri}
    return own | {commit.checkpoint.step for commit in attempt.committed}


def _last_that_counts(statuses: Sequence[Status], attempt: AttemptTruth) -> float:
    """The last step of an attempt before a decision ended it."""
    decision = _decision_on(statuses, attempt.number)
    return math.inf if decision is None else attempt.restored + decision["seq"]


def _decision_on(statuses: Sequence[Status], number: int) -> Mapping[str, Any] | None:
    """What was decided last on an attempt while its program ran; None where nothing was."""
    decisions = [status["decision"] for status in statuses if status.get("decision")]
    ours = [decision for decision in decisions if decision["attempt"] == number and decision["action"] in WAITING]
    return {"seq": 0, "step": 0, **ours[-1]} if ours else None


def _told_losses(statuses: Sequence[Status]) -> dict[int, int]:
    """By number of the attempt, the step of the checkpoint that is said to be lost."""
    losses = [status["lostCheckpoint"] for status in statuses if status.get("lostCheckpoint")]
    return {loss["attempt"]: loss["step"] for loss in losses}


def _untold(trial: str, statuses: Sequence[Status], count: int) -> Iterator[str]:
    """What does not say what is lost, or how often."""
    losses = [status["lostCheckpoint"] for status in statuses if status.get("lostCheckpoint")]
    for message in sorted({loss["message"] for loss in losses}):
        if not any(message in (status.get("message") or "") for status in statuses):
            yield f"{trial}: no message says that {message}"
    if losses and losses[-1].get("attempts", 1) != count:
        yield f"{trial}: {losses[-1].get('attempts', 1)} attempts are said to have lost a checkpoint, and {count} have"


def _miscounted(status: Status, total: int) -> Iterator[str]:
    """How the Experiment's status differs from those of its Trials."""
    counted = status.get("lostCheckpoints", 0)
    if counted != total:
        yield f"the Experiment counts {counted} lost checkpoints, and its Trials {total}"
    is_told = any(
        condition["type"] == "CheckpointsStored" and condition["status"] == "False"
        for condition in status.get("conditions") or ()
    )
    if is_told != bool(total):
        yield f"{total} checkpoints are lost, and the Experiment's condition says {'so' if is_told else 'nothing'}"


def _counted(status: Status) -> int:
    counters = ("failures", "disruptions", "infrastructureFailures", "ignored")
    return sum(int(status.get(counter, 0)) + _of_evaluation(status, counter) for counter in counters)


def _of_evaluation(status: Status, counter: str) -> int:
    return int((status.get("evaluation") or {}).get(counter, 0))


INVARIANTS: tuple[Callable[[Run], Iterator[str]], ...] = (
    each_failure_is_counted_once,
    one_writer_a_trial,
    no_accepted_checkpoint_is_lost,
    no_result_is_lost_or_doubled,
    no_pod_without_a_living_owner,
    every_trial_ends,
    a_stopper_hears_of_each_trial_once,
    the_end_is_the_undisturbed_one,
    nothing_is_left_in_the_bucket,
    stopped_trials_keep_no_more_than_policy_says,
    what_is_stored_is_whole,
    results_and_output_are_kept_whole,
    the_snapshot_tells_the_end,
    the_newest_checkpoint_is_stored_or_told_as_lost,
)


def broken(run: Run) -> list[str]:
    """All that does not hold."""
    return [problem for invariant in INVARIANTS for problem in invariant(run)]
