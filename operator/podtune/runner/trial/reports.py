"""What a trial's agents report, and what it changes: results, checkpoints, restores, problems with the store."""

from __future__ import annotations

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, TrialState
from podtune.api.resources.trial import Checkpoint, TrialStatus
from podtune.protocol.messages import CheckpointCommit, FinalCommit, Report, Restored, Result, StoreProblem
from podtune.runner.checkpoints import checkpoint_requests, found_checkpoints, retention
from podtune.runner.checkpoints.retention import lies_below
from podtune.runner.scheduling import clones, evaluations
from podtune.runner.scheduling.result_processor import ResultProcessor
from podtune.runner.timestamps import format_rfc3339, parse_rfc3339
from podtune.runner.trial import ledger, parameters, results
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import RESULTS_COUNT_NOT, TrialPhase


def take_report(trial: TrialMachine, report: Report, processor: ResultProcessor, now: float) -> None:
    """Takes in what the agent of the current attempt has posted; its results from the first unknown one on."""
    trial.expectations.observe_report(report.attempt, report.unstored)
    if report.restored is not None:
        _observe_restored(trial, report.restored, now)
    for result in report.results:
        if result.seq == trial.current.acked_seq + 1:
            _take(trial, result, processor, now)
    for commit in report.checkpoints:
        if not is_ahead(trial, commit):
            _accept(trial, commit, processor, now)
    if report.store_problem != trial.current.store_problem:
        _observe_store_problem(trial, report.store_problem, now)


def take_final(
    trial: TrialMachine, final: FinalCommit, unacked: list[Result], processor: ResultProcessor, now: float
) -> None:
    """Takes in what the agent left behind: results that were never acknowledged, and late checkpoints."""
    if final.restored is not None:
        _observe_restored(trial, final.restored, now)
    for result in [*unacked, final.last]:
        if result is not None and result.seq == trial.current.acked_seq + 1:
            _take(trial, result, processor, now)
    if final.seq > trial.current.acked_seq or not final.complete:
        trial.results_lost = trial.phase not in RESULTS_COUNT_NOT or trial.results_lost
        if final.last is not None and final.last.seq > trial.current.acked_seq:
            _take(trial, final.last, processor, now)
    for commit in final.checkpoints:
        _accept(trial, commit, processor, now)
    trial.status = ledger.mark_exported(trial.status, final.ledger)
    trial.current.store_problem = final.store_problem


def find_misplaced(trial: TrialMachine, report: Report) -> str:
    """URI of a checkpoint in a report that does not lie below the trial's prefix in its bucket; empty where all do."""
    commits = (*report.checkpoints, *(report.final.checkpoints if report.final is not None else ()))
    return next((uri for commit in commits if not lies_below(uri := commit.checkpoint.uri, trial.folder)), "")


def is_ahead(trial: TrialMachine, commit: CheckpointCommit) -> bool:
    """Whether results up to a checkpoint are missing: recorded now, a retry would start after them."""
    return commit.seq > trial.current.acked_seq


def _take(trial: TrialMachine, result: Result, processor: ResultProcessor, now: float) -> None:
    """Takes in the next result of the current attempt, and shows it to stopper and scheduler if it is new.

    The results after the one that a trial was stopped at depend on how fast its pod is deleted, so they change
    nothing. Nor do those after a scheduler's pause, unless they come before the checkpoint that it goes on from:
    they will come again. A trial that its user pauses trains on up to its checkpoint, and may be stopped meanwhile.
    """
    trial.current.acked_seq = result.seq
    result = evaluations.leave_out_objective(result, trial.context.spec) if not trial.is_evaluated else result
    if trial.context.spec.failures.silence_deadline is not None:
        trial.set(last_result_time=format_rfc3339(now))
    if trial.status.decision is not None and (phase := trial.phase) in RESULTS_COUNT_NOT:
        if phase is not TrialPhase.STOPPING:
            trial.current.held.append(result)
        return
    if trial.is_evaluated:
        trial.status = evaluations.record_metrics(trial.status, result)
        trial.touch(now + trial.context.settings.first_result_debounce)
        return
    new = results.is_new(trial.status, result, trial.context.time_attribute)
    trial.status = _add_result(trial, result)
    if new:
        processor.process(trial, result, now)
    trial.touch(now + _wait_for_others(trial, processor))


def _add_result(trial: TrialMachine, result: Result) -> TrialStatus:
    """The trial's status after a result of its training."""
    context = trial.context
    return results.add_result(
        trial.status, result, context.spec.objective, context.time_attribute, context.curve_metrics
    )


def _wait_for_others(trial: TrialMachine, processor: ResultProcessor) -> float:
    """How long a result waits for others that are written down with it."""

    def says_running(status: TrialStatus) -> bool:
        return status.state is TrialState.RUNNING and status.attempt == trial.attempt

    if any(map(says_running, (trial.saved, *trial.expectations.statuses))):
        return processor.write_delay(trial)
    # In a warm pod a short trial is over before anybody looks; of another it is soon seen that it runs.
    may_wait = trial.recorded_pod or not says_running(trial.status)
    settings = trial.context.settings
    return settings.running_debounce if may_wait else settings.first_result_debounce


def _accept(trial: TrialMachine, commit: CheckpointCommit, processor: ResultProcessor, now: float) -> None:
    """Records a checkpoint of the current attempt; one from elsewhere is passed over.

    Of a trial that was stopped, or paused by the scheduler, no more is wanted than the checkpoint of its last
    result, or else the next one; of one that has given up what it has learnt, or keeps no checkpoint, none. An
    evaluation has none to record.
    """
    home, ref = trial.home, commit.checkpoint
    if trial.is_evaluated or not lies_below(ref.uri, home) or clones.is_superseded(trial.status):
        return
    newest = max((c.step for c in trial.status.checkpoints if c.uri.startswith(home)), default=-1)
    decision = trial.status.decision
    if ref.step <= newest or (decision is not None and decision.stores_no_more):
        return
    if decision is not None and newest >= decision.step and trial.phase in RESULTS_COUNT_NOT:
        return
    _count_held(trial, commit.seq)
    checkpoint = Checkpoint(
        step=ref.step,
        uri=ref.uri,
        digest=ref.digest,
        metric="" if commit.metric is None else results.show(commit.metric),
        configuration=parameters.compute_fingerprint(trial.status.parameters),
    )
    if trial.current.wanted_step is not None and ref.step >= trial.current.wanted_step:
        trial.current.wanted_step = None
    spec = trial.context.spec
    pinned = processor.scheduler.pinned_steps(trial.index)
    trial.status = retention.accept(trial.status, checkpoint, spec.checkpoints.keep, spec.training_objective, pinned)
    trial.set(clone=None)  # what it has cloned is its own now
    is_answer = checkpoint_requests.answer(trial, checkpoint, commit.seq)
    trial.touch(now if is_answer or decision is not None else now + trial.context.settings.checkpoint_debounce)


def _observe_restored(trial: TrialMachine, restored: Restored, now: float) -> None:
    """The agent has told what the attempt started from.

    One that is pausing may have started from the very checkpoint that the next one is to clone once more.
    """
    trial.current.restored = restored
    if trial.finds_checkpoints:
        found_checkpoints.take(trial, restored, is_own=lies_below(restored.uri, trial.folder), now=now)
    if trial.phase in (TrialPhase.PAUSING, TrialPhase.PAUSED_BY_SCHEDULER):
        return
    status = clones.record_restore(trial.status, restored.uri, trial.attempt)
    if status is not trial.status:
        trial.status = status
        trial.touch(now)


def _count_held(trial: TrialMachine, seq: int) -> None:
    """Results up to a checkpoint won't come again: they count, but nobody is asked what they mean."""
    covered = [result for result in trial.current.held if result.seq <= seq]
    del trial.current.held[: len(covered)]
    for result in covered:
        trial.status = _add_result(trial, result)


def _observe_store_problem(trial: TrialMachine, problem: StoreProblem | None, now: float) -> None:
    if trial.current.store_problem is None:
        trial.current.store_problem_since = _store_problem_recorded(trial) or now
    trial.current.store_problem = problem
    trial.touch(now + trial.context.settings.pending_debounce)


def _store_problem_recorded(trial: TrialMachine) -> float | None:
    """Since when this attempt has had a problem with its store, as far as the status knows."""
    condition = find_condition(trial.saved.conditions, ConditionType.CHECKPOINTS_STORED)
    is_this_attempt = trial.saved.pod is not None and trial.saved.pod.uid == trial.current.uid
    if condition is None or condition.status != "False" or not is_this_attempt:
        return None
    return parse_rfc3339(condition.last_transition_time)
