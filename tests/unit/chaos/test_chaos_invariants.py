"""The invariants of `make chaos` are tested: each sees what it is there for, and nothing in a good run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from e2e.chaos.faults.calls import Call, classify_api, classify_report, classify_s3
from e2e.chaos.faults.injector import Injector
from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.history import History
from e2e.chaos.invariants import Run, broken, ending
from e2e.chaos.perturbation import Fault, Perturbation
from e2e.chaos.pods.process_agent import has_run_out_of_time
from e2e.chaos.pods.user_requests import Ask, UserRequest
from e2e.chaos.restored import broken_after_restore
from e2e.chaos.scenarios.scenario import Scenario
from podtune.simulation import faults

ONE = Scenario("one", spec={"search": {"maxTrials": 1}, "maxConcurrentTrials": 1})
URI = "s3://chaos/chaos/uid/c1-0/pod-1/2"
CHECKPOINT = {"step": 2, "uri": URI, "digest": ""}
LAST = {"attempt": 1, "uid": "pod-1", "class": "complete"}
RUNNING = {"state": "RUNNING", "attempt": 1, "iteration": 1, "bestValue": "0.1"}
STORED = {**RUNNING, "iteration": 2, "bestValue": "0.2", "checkpoint": CHECKPOINT, "checkpoints": [CHECKPOINT]}
ENDED = {**STORED, "state": "TERMINATED", "completionTime": "now", "lastAttempt": LAST}


def make_run(*statuses: dict[str, Any]) -> Run:
    history, truth = History(), GroundTruth()
    history.take("experiments", event("c1", "uid", status={"completionTime": "now"}))
    for status in statuses:
        history.take("trials", event("c1-0", "trial", spec={"parameters": {}}, status=status))
    truth.attempts.append(AttemptTruth("c1-0", 1, "pod-1", values={1: 0.1, 2: 0.2}, heard={URI}))
    truth.bucket[URI] = 2
    return Run(ONE, history, truth, undisturbed=None)


def event(name: str, uid: str, **body: Any) -> dict[str, Any]:
    return {"type": "MODIFIED", "object": {"metadata": {"name": name, "uid": uid, "labels": {}}, "spec": {}, **body}}


def pod(name: str, uid: str, owner: str, phase: str) -> dict[str, Any]:
    found = event(name, uid, status={"phase": phase})
    found["object"]["metadata"] |= {"ownerReferences": [{"uid": owner}], "labels": {"podtune.dev/trial": "c1-0"}}
    return found


def test_a_good_run_breaks_nothing() -> None:
    assert broken(make_run(RUNNING, STORED, ENDED)) == []


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ((RUNNING, {**ENDED, "failures": 2}), "went from 0 to 2"),
        (({**RUNNING, "lastAttempt": LAST}, {**ENDED, "failures": 1}), "was counted again"),
        ((RUNNING, {**ENDED, "lastAttempt": {**LAST, "attempt": 2}}), "attempt 1 was passed over"),
        ((STORED, {**ENDED, "checkpoint": {**CHECKPOINT, "step": 1}}), "went from step 2 back to 1"),
        ((STORED, RUNNING, ENDED), "its iteration went back"),
        ((RUNNING, {**ENDED, "iteration": 1}), "iteration 1 is recorded, and 2 was reported"),
        ((RUNNING, {**ENDED, "bestValue": "0.1"}), "as its best value"),
        ((RUNNING, STORED), "has not ended"),
        ((ENDED, {**ENDED, "state": "ERROR"}), "ended as TERMINATED, and then as ERROR"),
        (
            ({**ENDED, "conditions": [{"type": "ResultsComplete", "status": "False"}]},),
            "results were lost",
        ),
    ],
)
def test_what_a_status_must_not_say_is_seen(statuses: tuple[dict[str, Any], ...], words: str) -> None:
    assert any(words in problem for problem in broken(make_run(*statuses)))


@pytest.mark.parametrize(
    ("decided", "recorded", "is_lost"), [(2, ENDED, False), (3, ENDED, True), (2, {**ENDED, "iteration": 1}, True)]
)
def test_a_result_after_the_decision_may_be_lost(decided: int, recorded: dict[str, Any], is_lost: bool) -> None:
    decision = {"action": "STOP", "attempt": 1, "step": decided, "seq": decided}
    run = make_run({**RUNNING, "decision": decision}, recorded)
    run.truth.attempts[0].values[3] = 0.3
    assert any("was reported" in problem for problem in broken(run)) is is_lost


EVALUATED = Scenario("evaluated", spec=ONE.spec, evaluation_faults={0: (faults.ScheduledFault(faults.Fault.CRASH),)})
SCORED = {**ENDED, "bestValue": "2.2", "evaluation": {"step": 2, "attempt": 2, "failures": 1}}


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (SCORED, ""),
        ({**SCORED, "bestValue": "9.0"}, "c1-0: 9.0 is recorded as its best value, and 2.2 was reported"),
        (
            {**SCORED, "evaluation": {"attempt": 2}},
            "c1-0: 0 failures of its evaluation were counted, and there were 1",
        ),
        (
            {**SCORED, "failures": 1, "evaluation": {"attempt": 2}, "lastAttempt": {**LAST, "uid": "pod-2"}},
            "c1-0: 1 failures were counted, and there were 0",
        ),
    ],
    ids=["good", "a score of one that failed", "not counted", "counted as a failure of training"],
)
def test_an_evaluation_is_told_from_training(end: dict[str, Any], problem: str) -> None:
    run = make_run(STORED, end)
    for number, score in ((2, 9.0), (3, 2.2)):
        uid = f"pod-{number}"
        run.truth.attempts.append(AttemptTruth("c1-0", number, uid, restored=2, values={1: score}, evaluates=True))
    problems = broken(replace(run, scenario=EVALUATED))
    assert problems[:1] == ([problem] if problem else [])


def test_two_writers_are_seen() -> None:
    run = make_run(ENDED)
    run.truth.accepted += [("c1-0", 1), ("c1-0", 2), ("c1-0", 1)]
    assert broken(run) == ["c1-0: a report of attempt 1 was taken in after one of attempt 2"]


KEPT = Scenario("kept", spec={**ONE.spec, "logs": {"keep": "1Mi"}}, agent_bytes=1)


@pytest.mark.parametrize(
    ("results", "lines", "is_cut_short", "words"),
    [
        ([1, 2], ["1 a", "2 b"], False, ""),
        ([1], ["1 a", "2 b"], False, "results of attempt 1 are not in the store: [2]"),
        ([1, 2], ["2 b"], False, "lines of attempt 1 are not in the store: ['1 a']"),
        ([1], [], True, ""),
        ([1, 1, 2], ["1 a", "2 b"], True, "results of attempt 1 are stored twice or out of order"),
        ([1, 2], ["2 b", "1 a"], False, "lines of attempt 1 are stored twice or out of order"),
    ],
)
def test_what_is_kept_in_part_or_twice_is_seen(
    results: list[int], lines: list[str], is_cut_short: bool, words: str
) -> None:
    run = replace(make_run(ENDED), scenario=KEPT)
    (attempt,) = run.truth.attempts
    attempt.printed, attempt.cut_short = ["1 a", "2 b"], is_cut_short
    run.truth.results[attempt.uid], run.truth.logs[attempt.uid] = results, lines
    problems = broken(run)
    assert len(problems) == bool(words)
    assert all(words in problem for problem in problems)


REFUSED = '{"event": "stream not stored"}'
LEFT = "podtune-result {}"


@pytest.mark.parametrize(
    ("log", "is_out_of_time"),
    [
        ([REFUSED, LEFT, '{"event": "agent ends", "seconds": 3.0}'], True),
        ([REFUSED, LEFT, '{"event": "agent ends", "seconds": 2.9}'], False),
        (['{"event": "agent ends", "seconds": 3.0}'], False),
        ([REFUSED], False),
    ],
)
def test_results_are_lost_for_want_of_time_alone(log: list[str], is_out_of_time: bool) -> None:
    run = replace(make_run(ENDED), scenario=KEPT)
    (attempt,) = run.truth.attempts
    attempt.out_of_time = has_run_out_of_time(log, 3.0)
    run.truth.results[attempt.uid], run.truth.logs[attempt.uid] = [1], []
    assert bool(broken(run)) is not is_out_of_time


RECORDED = replace(KEPT, name="recorded", agent_bytes=0, snapshot_period="5s")


@pytest.mark.parametrize(
    ("experiment", "trial", "problems"),
    [
        ({"state": "Running"}, ENDED, []),
        ({}, ENDED, ["the store does not have the experiment"]),
        (
            {"state": "Running"},
            {**ENDED, "state": "RUNNING"},
            ["c1-0: state is 'RUNNING' in the store, and 'TERMINATED' in the cluster"],
        ),
    ],
    ids=["whole", "no experiment", "an earlier record"],
)
def test_a_snapshot_that_is_behind_is_seen(
    experiment: dict[str, Any], trial: dict[str, Any], problems: list[str]
) -> None:
    run = replace(make_run(ENDED), scenario=RECORDED)
    run.truth.records = {"": {"status": experiment}, "c1-0": {"status": trial}}
    assert broken(run) == problems


def restored(*statuses: dict[str, Any], went_on_from: int | None) -> Run:
    """A run after a restore; its trial has run again from a step, or not at all."""
    undisturbed = ending(make_run(ENDED).history)
    run = make_run(*statuses)
    run.truth.attempts.clear()
    if went_on_from is not None:
        run.truth.attempts.append(AttemptTruth("c1-0", 2, "pod-2", restored=went_on_from, values={3: 0.3}))
    return replace(run, scenario=ONE, undisturbed=undisturbed)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (restored({}, ENDED, went_on_from=None), ""),
        (restored({}, STORED, ENDED, went_on_from=2), ""),
        (restored({}, ENDED, went_on_from=2), "had ended by the snapshot, and has run again"),
        (restored({}, STORED, ENDED, went_on_from=1), "went on from 1, though the snapshot tells of a checkpoint of 2"),
        (restored({}, {**ENDED, "bestValue": "0.3"}, went_on_from=None), "best is '0.3', and '0.2' in the undisturbed"),
        (restored({}, {**ENDED, "attempt": 3, "failures": 1}, went_on_from=None), ""),
    ],
    ids=["ended before", "went on", "ended and ran again", "went back", "another end", "more attempts"],
)
def test_what_does_not_follow_from_the_snapshot_is_seen(run: Run, words: str) -> None:
    problems = broken_after_restore(run)
    assert bool(problems) is bool(words)
    assert any(words in problem for problem in problems) is bool(words)


@pytest.mark.parametrize(
    ("lives", "told", "words"),
    [
        ([[1, 2, 3], [3, 4]], [1, 2, 3, 4], ""),
        ([[1, 2, 3], [2, 3], [3, 4]], [1, 2, 3, 4], ""),
        ([[1, 2], []], [1, 2], ""),
        ([[1, 2, 2, 3], [3]], [1, 2, 2, 3], ""),
        ([[1, 2, 2, 3], [3]], [1, 2, 3], ""),
        ([[1, 2, 3], [3, 4]], [1, 2, 3, 3, 4], "[1, 2, 3, 3, 4] are told, and [1, 2, 3, 4] are stored"),
        ([[1, 2, 3], [3, 4]], [3, 4], "[3, 4] are told, and [1, 2, 3, 4] are stored"),
    ],
    ids=["went on", "twice", "not since", "retried before", "in an attempt unknown later", "told twice", "forgotten"],
)
def test_results_of_a_former_life_that_are_forgotten_or_told_twice_are_seen(
    lives: list[list[int]], told: list[int], words: str
) -> None:
    run = restored({}, ENDED, went_on_from=None)
    run.truth.lives = [{"c1-0": steps} for steps in lives]
    run.truth.told = {"c1-0": told}
    problems = broken_after_restore(run)
    assert len(problems) == bool(words)
    assert all(words in problem for problem in problems)


TOTAL = replace(ONE, spec={**ONE.spec, "stop": {"experiment": [{"plugin": {"settings": {"limit": 0.5}}}]}})


@pytest.mark.parametrize(
    ("said", "is_right"),
    [("2 trials make 0.5", True), ("3 trials make 0.7", False), ("2 trials make 0.6", False), ("", False)],
)
def test_an_experiment_that_its_stopper_ends_elsewhere_is_seen(said: str, is_right: bool) -> None:
    message = f"stopped: {said}, as stop.experiment[0].plugin asks"
    run = make_run({**ENDED, "observationSeq": 2})
    for name, place, value in (("c1-1", 1, "0.3"), ("c1-2", 3, "0.2"), ("c1-3", 0, "")):
        status = {**ENDED, "observationSeq": place, "bestValue": value} if value else {"state": "TERMINATED"}
        run.history.take("trials", event(name, name, spec={"parameters": {}}, status=status))
    conditions = [{"type": "SuccessCriteriaMet", "status": "True", "message": message}]
    run.history.take("experiments", event("c1", "uid", status={"completionTime": "now", "conditions": conditions}))
    problems = [problem for problem in broken(replace(run, scenario=TOTAL)) if "the experiment ended as" in problem]
    assert len(problems) == (not is_right)


def test_an_attempt_that_begins_too_early_is_seen() -> None:
    run = make_run(ENDED)
    run.truth.attempts.append(AttemptTruth("c1-0", 2, "pod-2", restored=1))
    assert broken(run) == ["c1-0: attempt 2 began at 1, though 2 was stored"]


RETURNED = Scenario("returned", requests=(UserRequest(Ask.RETURN, 0, 2, 1),), spec=ONE.spec)
FIRST = {**CHECKPOINT, "step": 1, "uri": URI.replace("/2", "/1")}
BACK = {**STORED, "checkpoint": FIRST, "checkpoints": [CHECKPOINT, FIRST]}


@pytest.mark.parametrize(
    ("scenario", "restored", "problems"),
    [
        (RETURNED, 1, []),
        (RETURNED, 0, ["c1-0: attempt 2 began at 0, though 1 was stored"]),
        (
            ONE,
            1,
            [
                "c1-0: its checkpoint went from step 2 back to 1",
                "c1-0: attempt 2 began at 1, though 2 was stored",
            ],
        ),
    ],
    ids=["asked to return", "too far", "nobody has asked"],
)
def test_a_trial_goes_back_only_where_a_person_asks_for_it(
    scenario: Scenario, restored: int, problems: list[str]
) -> None:
    run = make_run(STORED, BACK, {**ENDED, "checkpoints": [FIRST, CHECKPOINT]})
    run.truth.bucket[str(FIRST["uri"])] = 1
    run.truth.attempts.append(AttemptTruth("c1-0", 2, "pod-2", restored=restored))
    assert broken(Run(scenario, run.history, run.truth, None)) == problems


@pytest.mark.parametrize(
    ("repeats_late", "adopted", "count"), [(False, False, 1), (True, False, 0), (True, True, 1)],
    ids=["by the operator", "by the network", "and taken for the trial's"],
)  # fmt: skip
def test_a_pod_that_is_made_again_is_seen(repeats_late: bool, adopted: bool, count: int) -> None:
    run = make_run({**ENDED, "pod": {"uid": "pod-2" if adopted else "pod-1"}}, {**ENDED, "pod": {"uid": "pod-1"}})
    for uid in ("pod-1", "pod-2"):
        run.history.take("pods", pod("c1-0-1", uid, "trial", "Succeeded"))
        run.history.take("pods", {**pod("c1-0-1", uid, "trial", "Succeeded"), "type": "DELETED"})
    problems = broken(replace(run, repeats_late=repeats_late))
    assert problems.count("pod c1-0-1 was made 2 times") == count


def test_a_checkpoint_too_many_or_too_few_is_seen() -> None:
    run = make_run(ENDED)
    run.truth.bucket = {URI.replace("/2", "/1"): 1}
    problems = broken(run)
    assert any("recorded, and not in the bucket" in problem for problem in problems)
    assert any("in the bucket, and is not kept" in problem for problem in problems)


LOSS = "the checkpoint of iteration 3 is lost; the newest stored one is from iteration 2"
LOST: dict[str, Any] = {
    **ENDED,
    "lostCheckpoint": {"attempt": 1, "step": 3, "attempts": 1, "message": LOSS},
    "message": f"bad; {LOSS}",
}
TOLD = {"lostCheckpoints": 1, "conditions": [{"type": "CheckpointsStored", "status": "False"}]}


def losing(*statuses: dict[str, Any], counted: dict[str, Any] | None = None) -> Run:
    """A run whose attempt has reported checkpoints at 2 and 3; only that of 2 is stored."""
    run = make_run(*statuses)
    run.truth.attempts[0].reported += [2, 3]
    run.history.take("experiments", event("c1", "uid", status={"completionTime": "now", **(counted or {})}))
    return run


def test_a_lost_checkpoint_that_is_told_breaks_nothing() -> None:
    assert broken(losing(STORED, LOST, counted=TOLD)) == []


def test_a_checkpoint_that_is_lost_in_silence_is_seen() -> None:
    assert broken(losing(STORED, ENDED)) == ["c1-0: attempt 1 has lost the checkpoint of step 3, and nobody was told"]


def test_a_loss_that_is_none_is_seen() -> None:
    run = losing(STORED, LOST, counted=TOLD)
    run.truth.attempts[0].reported.remove(3)
    assert broken(run) == ["c1-0: attempt 1 is said to have lost step 3; 2 is stored"]


@pytest.mark.parametrize(
    ("end", "counted", "words"),
    [
        ({**LOST, "message": "bad"}, TOLD, f"c1-0: no message says that {LOSS}"),
        (
            {**LOST, "lostCheckpoint": {**LOST["lostCheckpoint"], "attempts": 2}},
            TOLD,
            "c1-0: 2 attempts are said to have lost a checkpoint, and 1 have",
        ),
        (LOST, {**TOLD, "lostCheckpoints": 0}, "the Experiment counts 0 lost checkpoints, and its Trials 1"),
        (LOST, {"lostCheckpoints": 1}, "1 checkpoints are lost, and the Experiment's condition says nothing"),
    ],
)
def test_a_loss_that_is_told_by_halves_is_seen(end: dict[str, Any], counted: dict[str, Any], words: str) -> None:
    assert broken(losing(STORED, end, counted=counted)) == [words]


@pytest.mark.parametrize(
    ("decision", "is_loss"),
    [
        ({"action": "STOP", "attempt": 1, "step": 2, "seq": 2}, False),
        ({"action": "STOP", "attempt": 1, "step": 3, "seq": 3}, True),
        ({"action": "STOP", "attempt": 2, "step": 2, "seq": 2}, True),
        ({"action": "PAUSE", "attempt": 1, "step": 2, "seq": 2}, False),
        ({"action": "PAUSE", "attempt": 1, "step": 3, "seq": 2}, True),
        ({"action": "REQUEUE", "attempt": 1, "step": 2, "seq": 2}, True),
    ],
)
def test_what_is_reported_after_a_decision_is_no_loss(decision: dict[str, Any], is_loss: bool) -> None:
    assert bool(broken(losing({**STORED, "decision": decision}, ENDED))) is is_loss


DISCARDING = replace(ONE, spec={**ONE.spec, "checkpoints": {"keep": {"stopped": 0}}})
DISCARDED: dict[str, Any] = {
    **RUNNING,
    "state": "TERMINATED",
    "reason": "StoppedByScheduler",
    "completionTime": "now",
    "lastAttempt": LAST,
    "iteration": 2,
    "bestValue": "0.2",
    "decision": {"action": "STOP", "attempt": 1, "step": 2, "seq": 2, "discards": True},
}


def discarding(end: dict[str, Any], *, deleted: bool = True) -> Run:
    """A run whose trial is stopped, and keeps nothing; it has reported checkpoints at 1 and 2, and stored that of 1."""
    run = make_run(RUNNING, STORED, end)
    run.truth.attempts[0].reported += [1, 2, 3]
    if deleted:
        run.truth.bucket.clear()
    return replace(run, scenario=DISCARDING)


def test_a_stopped_trial_that_keeps_nothing_has_lost_nothing() -> None:
    assert broken(discarding(DISCARDED)) == []


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (discarding(DISCARDED, deleted=False), f"c1-0: was stopped, and still has {URI}"),
        (discarding({**DISCARDED, "checkpoints": [CHECKPOINT]}), f"c1-0: was stopped, and still has {URI}"),
        (
            discarding({**DISCARDED, "decision": {**DISCARDED["decision"], "discards": False}}),
            "c1-0: was stopped, and its decision does not say that it keeps nothing",
        ),
        (discarding({**DISCARDED, "reason": "Completed"}), "no trial was stopped"),
        (discarding(LOST | DISCARDED), "c1-0: attempt 1 is said to have lost step 3; 2 is stored"),
    ],
)
def test_what_a_stopped_trial_should_not_have_or_tell_is_seen(run: Run, words: str) -> None:
    assert words in broken(run)


def test_of_an_attempt_that_has_vanished_nobody_can_tell() -> None:
    run = losing(STORED, ENDED)
    run.truth.attempts[0].ended = faults.Fault.VANISHED.value
    assert broken(run) == []


def test_pods_that_nobody_wants_are_seen() -> None:
    run = make_run(ENDED)
    run.history.take("pods", pod("c1-0-1", "pod-1", "trial", "Running"))
    run.history.take("pods", pod("c1-9-1", "pod-9", "nobody", "Running"))
    problems = broken(run)
    assert "pod c1-9-1 has no living owner" in problems
    assert "pod c1-0-1 runs on after the end" in problems
    assert "2 pods ran at a time; 1 were asked for" in problems


def test_a_gang_may_have_as_many_pods_as_it_has_ranks() -> None:
    run = make_run(ENDED)
    for rank in range(3):
        run.history.take("pods", pod(f"c1-0-1-{rank}", f"pod-{rank}", "trial", "Running"))
    gang = replace(ONE, spec={**ONE.spec, "trialTemplate": {"roles": [{"name": "driver"}, {"replicas": 2}]}})
    assert gang.replicas == 3
    assert not [problem for problem in broken(replace(run, scenario=gang)) if "at a time" in problem]
    assert "3 pods ran at a time; 1 were asked for" in broken(run)


def test_another_order_of_observations_is_seen_where_a_searcher_learns_from_one_trial_at_a_time() -> None:
    told = []
    for at_once, algorithm in ((1, "tpe"), (2, "tpe"), (1, "random")):
        first, other = make_run({**ENDED, "observationSeq": 1}), make_run({**ENDED, "observationSeq": 2})
        for run in (first, other):
            run.history.experiment["spec"] = {"maxConcurrentTrials": at_once, "search": {"algorithm": algorithm}}
        told.append(broken(Run(ONE, other.history, other.truth, ending(first.history))))
    assert told == [["trial 0: observation is 2, and 1 in the undisturbed run"], [], []]


def test_another_end_is_seen() -> None:
    undisturbed = ending(make_run(ENDED).history)
    run = make_run({**ENDED, "reason": "Stopped"})
    problems = broken(Run(ONE, run.history, run.truth, undisturbed))
    assert problems == ["trial 0: reason is 'Stopped', and None in the undisturbed run"]


def test_a_fault_strikes_the_call_that_it_names_once() -> None:
    injector = Injector()
    armed = injector.arm(Perturbation("plain", Call.CREATE_POD, 2, Fault.LOSE_REPLY), "c1", seed=1)
    calls = [(Call.CREATE_POD, "c1"), (Call.CREATE_POD, "c2"), (Call.EVENT, "c1"), (Call.CREATE_POD, "c1")] * 2
    assert [injector.strike(*call)[0] for call in calls].count(Fault.LOSE_REPLY) == 1
    assert armed.struck is not None
    assert armed.seen[Call.CREATE_POD] == 4


@pytest.mark.parametrize("fault", [Fault.LOSE_TWICE, Fault.LOSE_THEN_KILL])
def test_a_fault_that_goes_on_begins_with_a_loss_and_keeps_its_name(fault: Fault) -> None:
    perturbation = Perturbation("recorded", Call.TRIAL_END, 1, fault)
    first, then = perturbation.strikes
    assert (first.call, first.occurrence, first.fault) == (Call.TRIAL_END, 1, Fault.LOSE_CLUSTER)
    assert then.fault in (Fault.LOSE_CLUSTER, Fault.KILL_AFTER)
    assert perturbation.id.endswith(f"/{fault}")


TRIALS = "/apis/podtune.dev/v1alpha1/namespaces/ns/trials"


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", TRIALS, b'{"metadata": {"name": "c1-0"}}', (Call.CREATE_TRIAL, "c1")),
        ("PUT", f"{TRIALS}/c1-0/status", b'{"status": {"completionTime": "now"}}', (Call.TRIAL_END, "c1")),
        ("PUT", f"{TRIALS}/c1-0/status", b'{"status": {"state": "RUNNING"}}', (Call.TRIAL_RUNNING, "c1")),
        (
            "PUT",
            f"{TRIALS}/c1-0/status",
            b'{"status": {"state": "RUNNING", "checkpointRequest": {"id": "a"}}}',
            (Call.TRIAL_REQUEST, "c1"),
        ),
        (
            "PUT",
            f"{TRIALS}/c1-0/status",
            b'{"status": {"state": "RUNNING", "checkpoint": {"step": 1}, "checkpointRequest": {"checkpoint": {}}}}',
            (Call.TRIAL_CHECKPOINT, "c1"),
        ),
        (
            "POST",
            "/apis/apps/v1/namespaces/ns/controllerrevisions",
            b'{"metadata": {"name": "c1-0ff"}}',
            (Call.KEEP_REVISION, "c1"),
        ),
        ("POST", "/api/v1/namespaces/ns/services", b'{"metadata": {"name": "gang-c1-0"}}', (Call.CREATE_SERVICE, "c1")),
        ("PATCH", "/api/v1/namespaces/ns/pods/c1-0-1-2", b'{"spec": {"schedulingGates": []}}', (Call.OPEN_GATE, "c1")),
        ("PATCH", f"{TRIALS}/c1-100000", b'{"metadata": {"labels": {}}}', (Call.ADOPT_TRIAL, "c1")),
        (
            "PUT",
            f"{TRIALS}/c1-100001/status",
            b'{"status": {"completionTime": "now", "state": "ERROR", "reason": "Refused"}}',
            (Call.TRIAL_REFUSED, "c1"),
        ),
        (
            "PUT",
            f"{TRIALS}/c1-0/status",
            b'{"status": {"attempt": 1, "lastAttempt": {"attempt": 1}, "evaluation": {"attempt": 2}}}',
            (Call.TRAINING_END, "c1"),
        ),
        (
            "PUT",
            f"{TRIALS}/c1-0/status",
            b'{"status": {"attempt": 2, "lastAttempt": {"attempt": 2}, "evaluation": {"attempt": 2}}}',
            (Call.ATTEMPT_END, "c1"),
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/pods",
            b'{"metadata": {"name": "c1-snapshot-1", "labels": {"podtune.dev/storage": "snapshot"}}}',
            (Call.CREATE_STORAGE_POD, "c1"),
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/configmaps",
            b'{"metadata": {"name": "c1-snapshot-1-0"}}',
            (Call.CREATE_CHUNK, "c1"),
        ),
        (
            "PUT",
            "/apis/podtune.dev/v1alpha1/namespaces/ns/experiments/c1/status",
            b'{"status": {"storage": {"jobs": [{"purpose": "Snapshot", "state": "Running"}]}}}',
            (Call.SNAPSHOT_JOB, "c1"),
        ),
        (
            "PUT",
            "/apis/podtune.dev/v1alpha1/namespaces/ns/experiments/c1/status",
            b'{"status": {"storage": {"jobs": [{"purpose": "Prune", "state": "Running"}]}}}',
            (Call.PRUNE_JOB, "c1"),
        ),
        (
            "PUT",
            "/apis/podtune.dev/v1alpha1/namespaces/ns/experiments/c1/status",
            b'{"status": {"storage": {"jobs": [{"purpose": "Snapshot", "state": "Done"}]}}}',
            (Call.EXPERIMENT_STATUS, "c1"),
        ),
        ("DELETE", "/api/v1/namespaces/ns/pods/c1-0-1", b"", (Call.DELETE_POD, "c1")),
        ("GET", "/api/v1/namespaces/ns/pods/c1-0-1/log", b"", (Call.POD_LOG, "c1")),
        ("GET", "/api/v1/namespaces/ns/pods", b"", (Call.LIST, "")),
        ("POST", "/apis/events.k8s.io/v1/namespaces/ns/events", b'{"regarding": {"name": "c1-0"}}', (Call.EVENT, "c1")),
    ],
)
def test_calls_are_told_apart(method: str, path: str, body: bytes, expected: tuple[Call, str]) -> None:
    assert classify_api(method, path, {}, {}, body) == expected


def test_a_log_that_is_followed_is_told_from_one_that_is_read() -> None:
    path = "/api/v1/namespaces/ns/pods/c1-0-1/log"
    assert classify_api("GET", path, {"follow": "true"}, {}, b"") == (Call.FOLLOW_LOG, "c1")
    assert classify_api("GET", path, {"follow": "false"}, {}, b"") == (Call.POD_LOG, "c1")
    path = "/v1/namespaces/ns/trials/c1-0/log"
    assert classify_report("GET", path, {}, {}, b"") == (Call.AGENT_LOG, "c1")
    assert classify_report("GET", path, {"follow": "false"}, {}, b"") == (Call.OTHER, "c1")


def test_a_report_that_asks_for_records_is_told_from_others() -> None:
    path = "/v1/namespaces/ns/trials/c1-0/results"
    assert classify_report("POST", path, {}, {}, b'{"results": [], "stored": null}') == (Call.REPORT, "c1")
    assert classify_report("POST", path, {}, {}, b'{"stored": {"trial": 7}}') == (Call.REPORT_FOR_RECORDS, "c1")


def test_records_of_the_snapshot_are_told_from_other_objects() -> None:
    folder = "chaos/uid/_snapshot"
    of_trial = f"{folder}/trials/c1-0/00000000000000000007.json"
    assert classify_s3("PUT", f"/podtune/{of_trial}", {}, {}, b"") == (Call.S3_PUT_RECORD, "c1")
    assert classify_s3("PUT", f"/podtune/{folder}/experiment/7.json", {}, {}, b"") == (Call.S3_PUT_RECORD, "")
    listing = {"list-type": "2", "prefix": f"{folder}/trials/c1-0/"}
    assert classify_s3("GET", "/podtune", listing, {}, b"") == (Call.S3_LIST_RECORDS, "c1")
    assert classify_s3("POST", "/podtune", {"delete": ""}, {}, of_trial.encode()) == (Call.S3_DELETE_RECORD, "c1")


def test_calls_to_the_bucket_are_told_apart() -> None:
    key = "/podtune/chaos/uid/c1-0/pod/3"
    assert classify_s3("PUT", f"{key}/manifest.json", {}, {}, b"") == (Call.S3_PUT_MANIFEST, "c1")
    assert classify_s3("PUT", f"{key}/results/0/0000000001-1.jsonl", {}, {}, b"") == (Call.S3_PUT_SEGMENT, "c1")
    assert classify_s3("PUT", f"{key}/data/results", {}, {}, b"") == (Call.S3_PUT, "c1")
    assert classify_s3("PUT", f"{key}/data/weights", {"partNumber": "1"}, {}, b"") == (Call.S3_PART, "c1")
    assert classify_s3("GET", "/podtune", {"list-type": "2", "prefix": "chaos/uid/c1-0/"}, {}, b"")[0] is Call.S3_LIST
