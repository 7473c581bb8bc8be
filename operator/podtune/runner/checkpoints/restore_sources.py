"""Trials that start from another trial's checkpoint at a user's request (`spec.restoreFrom`).

The checkpoint is looked up when the trial first starts, and recorded before its pod is created. It is recorded as a
clone, so it is restored and protected from deletion like a checkpoint that a scheduler has a trial clone (see
`clones`). The trial's own checkpoints replace it as soon as there is one.

If it can't be restored, the look-up is repeated, because the checkpoint may have been deleted: an experiment does not
know which of its checkpoints others need. Checkpoints that could not be restored before are skipped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from podtune.api.conditions import clip
from podtune.api.names import DecisionKind, TrialReason, TrialState
from podtune.api.resources.trial import Checkpoint, RestoreSource, TrialStatus
from podtune.api.restore_from import IfUnavailable, RestoreFrom
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, FindCheckpoint
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.checkpoints.retention import STOPPED_REASONS
from podtune.runner.scheduling import clones
from podtune.runner.search.session import Search
from podtune.runner.trial import parameters
from podtune.runner.trial.machine import TrialMachine


class RestoreSources:
    """Finds the checkpoints that trials are to start from."""

    def __init__(
        self,
        experiment: str,
        trials: Mapping[str, TrialMachine],
        actions: ActionQueue,
        pins: CheckpointPins,
        search: Search,
    ) -> None:
        self._experiment = experiment
        self._trials = trials
        self._actions = actions
        self._pins = pins
        self._search = search
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """By donor of this experiment: trials that wait for a checkpoint of it."""

    def list_waiting_for(self, donor: TrialMachine) -> tuple[str, ...]:
        """The trials to check when the state of a donor has changed."""
        if donor.name not in self._waiting or donor.awaits_restore_source:
            return ()
        return tuple(sorted(self._waiting[donor.name]))

    def list_orphans(self) -> list[str]:
        """The trials that wait for one that will never be made."""
        if not self._waiting or not self._search.is_over:
            return []
        return [name for donor in self._waiting.keys() - self._trials.keys() for name in self._waiting[donor]]

    def find_source(self, trial: TrialMachine, now: float) -> str:
        """Looks for the checkpoint that a trial without a pod waits for, if it does.

        Returns:
            Why there is none and will be none; empty where that is not so.
        """
        wanted = trial.spec.restore_from
        if wanted is None or not trial.awaits_restore_source:
            return ""
        if wanted.experiment not in ("", self._experiment):
            self._actions.enqueue(
                FindCheckpoint(trial.name, wanted, tuple(trial.status.failed_restore_sources)), now, trial.name
            )
            return ""
        self._stop_waiting(trial, wanted)
        donor = self._trials.get(wanted.trial)
        if donor is trial or (donor is None and self._search.is_over):
            return self._describe_unavailable(trial, f"there is no other trial {wanted.trial}", now)
        lost = trial.status.failed_restore_sources
        found = None if donor is None else pick_checkpoint(donor.status.checkpoints, wanted.step, lost)
        if found is not None:
            self._record(trial, found, now)
        elif donor is not None and donor.is_finished:
            return self._describe_unavailable(trial, describe_missing(wanted, donor.status, lost), now)
        elif donor is not None and self._waits_for(donor, trial):
            return self._describe_unavailable(trial, describe_cycle(wanted.trial, trial.name), now)
        else:
            self._waiting[wanted.trial].add(trial.name)
            self._wait(trial, f"waiting for a checkpoint of {wanted.trial} to start from", now)
        return ""

    def on_action_result(self, trial: TrialMachine, result: ActionResult, now: float) -> str:
        """Hears what was found in another experiment.

        Returns:
            Why there is no such checkpoint and will be none; empty where that is not so.
        """
        if not trial.awaits_restore_source:
            return ""
        if result.status is ActionStatus.REFUSED:
            return self._describe_unavailable(trial, result.message, now)
        if result.checkpoint is not None:
            self._record(trial, result.checkpoint, now)
        else:
            self._wait(trial, f"waiting for a checkpoint to start from: {result.message}", now)
        return ""

    def _waits_for(self, donor: TrialMachine, trial: TrialMachine) -> bool:
        """Whether a donor can't begin before a trial has a checkpoint: itself, or by way of others."""
        passed: set[str] = set()
        waiting: TrialMachine | None = donor
        while waiting is not None and waiting.awaits_restore_source and waiting.name not in passed:
            passed.add(waiting.name)
            assert waiting.spec.restore_from is not None  # else it would await none
            waiting = self._trials.get(waiting.spec.restore_from.trial)
            if waiting is trial:
                return True
        return False

    def _stop_waiting(self, trial: TrialMachine, wanted: RestoreFrom) -> None:
        self._waiting[wanted.trial].discard(trial.name)
        if not self._waiting[wanted.trial]:
            del self._waiting[wanted.trial]

    def _record(self, trial: TrialMachine, checkpoint: Checkpoint, now: float) -> None:
        wanted = trial.spec.restore_from
        assert wanted is not None  # the caller has looked
        present = parameters.find_effective(trial.spec, trial.status)
        trial.status = clones.replace_with_clone(trial.status, trial.spec, wanted.trial, checkpoint, present)
        trial.set(restore_source=RestoreSource(uri=checkpoint.uri, step=checkpoint.step))
        self._pins.update(trial)
        message = f"starts from iteration {checkpoint.step} of {wanted.trial} (spec.restoreFrom)"
        trial.log_decision(
            DecisionKind.RESTORE, message, {"donor": wanted.trial, "checkpoint": checkpoint.step}, now=now
        )
        trial.explain(TrialState.PENDING, TrialReason.QUEUED, message)
        trial.touch(now)

    def _describe_unavailable(self, trial: TrialMachine, problem: str, now: float) -> str:
        wanted = trial.spec.restore_from
        assert wanted is not None  # the caller has looked
        if trial.status.failed_restore_sources and trial.status.last_attempt is not None:
            problem = f"{problem}; {trial.status.last_attempt.message}"
        if wanted.if_unavailable is IfUnavailable.FAIL:
            return f"spec.restoreFrom: {problem}; name another checkpoint, or set ifUnavailable: StartAfresh"
        trial.set(restore_source=RestoreSource())
        trial.log_decision(DecisionKind.RESTORE, f"starts from scratch: {problem}", {}, now=now)
        trial.explain(TrialState.PENDING, TrialReason.QUEUED, f"starts from scratch: {problem}")
        trial.touch(now)
        return ""

    def _wait(self, trial: TrialMachine, message: str, now: float) -> None:
        is_to_run = trial.status.state in (None, TrialState.PENDING)
        if is_to_run and trial.explain(TrialState.PENDING, TrialReason.WAITING_FOR_CHECKPOINT, clip(message)):
            trial.touch(now + trial.context.settings.pending_debounce)


def pick_checkpoint(
    checkpoints: Sequence[Checkpoint], step: int | None, lost: Collection[str] = ()
) -> Checkpoint | None:
    """The checkpoint of a step, the newest of these; without a step, the latest of all; none that is lost."""
    fitting = (known for known in reversed(checkpoints) if step is None or known.step == step)
    return next((known for known in fitting if known.uri not in lost), None)


def describe_missing(wanted: RestoreFrom, donor: TrialStatus, lost: Collection[str] = ()) -> str:
    """Says of a trial that has ended that it lacks a checkpoint."""
    if donor.decision is not None and donor.decision.discards:
        return f"{wanted.trial} was stopped, and its experiment keeps no checkpoint of it (checkpoints.keep.stopped)"
    if not donor.checkpoints:
        hint = "; checkpoints.keep.stopped says what such trials keep" if donor.reason in STOPPED_REASONS else ""
        return f"{wanted.trial} ended without a checkpoint{hint}"
    if lost:
        return f"{wanted.trial} has no other checkpoint to start from"
    kept = ", ".join(str(known.step) for known in donor.checkpoints)
    return f"{wanted.trial} no longer has a checkpoint of iteration {wanted.step} (kept: {kept})"


def describe_cycle(donor: str, trial: str) -> str:
    """Says that two trials would wait for each other."""
    return f"{donor} itself waits for a checkpoint of {trial}, so neither would ever start"
