"""How long the pod of a trial stays before a stop, a pause or a requested retry, so that its checkpoints are stored.

Checkpoints that the program had reported before the decision are stored first, within `checkpoints.sync.timeout`; later
ones are not waited for. A pause and a requested retry ask the program for one more, which it must report within
`checkpoints.requestTimeout`. Both times count from the decision, so they span restarts of the operator.
"""

from __future__ import annotations

from podtune.api.base import parse_duration
from podtune.api.names import DecisionAction, TrialReason
from podtune.api.resources.trial import Decision
from podtune.runner.attempts import grace_periods
from podtune.runner.records import Pod
from podtune.runner.scheduling import clones
from podtune.runner.timestamps import parse_rfc3339
from podtune.runner.trial.machine import TrialMachine

WAITING = frozenset({DecisionAction.STOP, DecisionAction.PAUSE, DecisionAction.FAIL, DecisionAction.RETRY})
"""Decisions on a running program. Once a rank of a gang has ended, no checkpoint can become complete."""

_NONE_STORED = frozenset({TrialReason.STORE_UNUSABLE, TrialReason.NOT_PLACED, TrialReason.TEMPLATE_CHANGED})
"""Why an attempt is given up that has stored nothing, or nothing that counts."""


def waits_for_checkpoint(decision: Decision) -> bool:
    """Whether pods stay until the checkpoints are stored that the decision goes by."""
    return decision.action in WAITING or decision.wants_checkpoint


def compute_upload_deadline(trial: TrialMachine, now: float) -> float:
    """Until when what was decided of a trial waits for a checkpoint; a time that has passed where it does not."""
    decision, pod = trial.saved.decision, trial.pod
    if decision is None or not waits_for_checkpoint(decision) or pod is None or not trial.home:
        return 0.0
    if _is_of_no_use(trial, decision):
        return 0.0
    if not (pod.training or trial.current.has_reported):
        return 0.0
    limit = _read_moment(decision) + parse_duration(trial.context.spec.checkpoints.sync.timeout)
    if trial.saved.checkpoints != trial.status.checkpoints:
        return limit  # stored, and being written down
    heard_by = trial.expectations.compute_silence_deadline(trial.current.uid, now, trial.context.settings.report_wait)
    if now < heard_by:
        return min(limit, heard_by)
    waits_until = limit if _is_storing(trial, _find_last_that_counts(trial, decision)) else 0.0
    if _is_asked(trial, decision) and not _find_answer(trial, decision) and _may_answer(trial):
        asked_until = _read_moment(decision) + parse_duration(trial.context.spec.checkpoints.request_timeout)
        return max(asked_until, waits_until)
    return waits_until


def compute_grace_period(trial: TrialMachine, pod: Pod) -> int | None:
    """Seconds that a pod of ours is given to end; None for its own grace period.

    A stop or a pause leaves no time for what was reported later: that is stored if the program's part is enough. Of a
    program that is not known to have begun, nothing is to be stored, whether its agent was heard or not.
    """
    uid, decision = trial.current.uid, trial.saved.decision
    if not trial.home:
        return None
    gives_up = decision is not None and _is_of_no_use(trial, decision)
    has_begun = bool(pod.training or pod.training_since or trial.current.has_reported)
    return grace_periods.choose_for_deletion(
        pod.own_grace,
        program_runs=not pod.training_until,
        heard=gives_up or not has_begun or trial.expectations.unstored[0] == uid,
        unstored=None
        if gives_up or _has_stored_what_counts(trial, decision)
        else trial.expectations.find_unstored(uid),
    )


def stores_answer(trial: TrialMachine) -> bool:
    """Whether the program of a trial that is to pause has reported a checkpoint since, which the agent stores."""
    decision = trial.status.decision
    if decision is None:
        return False
    answer = _find_answer(trial, decision)
    return bool(answer) and _is_storing(trial, answer)


def _read_moment(decision: Decision) -> float:
    return parse_rfc3339(decision.time) or 0.0


def _is_of_no_use(trial: TrialMachine, decision: Decision) -> bool:
    """Whether nothing the attempt left is stored, or would count.

    A clone continues from its donor's checkpoint, a trial that goes back from an earlier one of its own, a gang whose
    ranks were not all placed has none, an attempt that is made anew from another template has come to nothing, and an
    evaluation starts anew.
    """
    is_none_stored = decision.reason in _NONE_STORED
    return decision.stores_no_more or is_none_stored or trial.is_evaluated or clones.is_superseded(trial.saved)


def _has_stored_what_counts(trial: TrialMachine, decision: Decision | None) -> bool:
    """Whether nothing is left to store that a stop or a pause waits for; what was reported later may be."""
    if decision is None or not waits_for_checkpoint(decision):
        return False
    return not _is_storing(trial, _find_last_that_counts(trial, decision))


def _find_last_that_counts(trial: TrialMachine, decision: Decision) -> int:
    """The `seq` up to which checkpoints are waited for: the decision's, or that of the answer to a pause."""
    return max(decision.seq, _find_answer(trial, decision) if _is_asked(trial, decision) else 0)


def _is_asked(trial: TrialMachine, decision: Decision) -> bool:
    """Whether the program is asked for one more checkpoint, and none of those on record is that."""
    return decision.wants_checkpoint and not _is_answered(trial, decision)


def _find_answer(trial: TrialMachine, decision: Decision) -> int:
    """The `seq` of the checkpoint that the program has reported since the decision; 0 for none yet."""
    return trial.expectations.find_answer(trial.current.uid, decision.seq)


def _is_answered(trial: TrialMachine, decision: Decision) -> bool:
    """Whether a checkpoint of the decision's iteration, or of a later one, is on record."""
    return any(c.uri.startswith(trial.home) and c.step >= decision.step for c in trial.saved.checkpoints)


def _may_answer(trial: TrialMachine) -> bool:
    """Whether the program may still report a checkpoint that can be stored."""
    return trial.current.store_problem is None and trial.pod is not None and not trial.pod.training_until


def _is_storing(trial: TrialMachine, seq: int) -> bool:
    """Whether the agent still stores a checkpoint that was reported by then, or one in the place of it."""
    unstored = trial.expectations.find_unstored(trial.current.uid)
    return unstored is not None and unstored.waits and unstored.since <= seq
