"""Which trials hold one of the maxConcurrentTrials places, and which wait for one."""

from __future__ import annotations

from podtune.runner.actions import CreatePod
from podtune.runner.dispatch import Dispatch
from podtune.runner.trial_machine import NEVER, TrialMachine
from podtune.tuning.schedulers.base import Scheduler


class Places:
    """Starts attempts as there are places.

    A trial holds a place from the moment its pod is asked for until the pod's end is taken in; also while it is not
    known whether the pod was made. The queue is in the order of the times from which trials may start, then of their
    indexes: it follows from what is recorded, so a restarted operator has the same.
    """

    def __init__(self, dispatch: Dispatch, scheduler: Scheduler) -> None:
        self._dispatch = dispatch
        self._scheduler = scheduler
        self._holders: set[str] = set()
        self._waiting: dict[str, TrialMachine] = {}

    def settle(self, trial: TrialMachine, now: float) -> None:
        """Takes in what became of a trial."""
        if trial.occupies_place or self.creating(trial, now):
            self._holders.add(trial.name)
        else:
            self._holders.discard(trial.name)
        if trial.may_start_at() == NEVER or ("create-pod", trial.name) in self._dispatch:
            self._waiting.pop(trial.name, None)
        else:
            self._waiting[trial.name] = trial

    def creating(self, trial: TrialMachine, now: float) -> bool:
        """Whether a pod of the trial's may come to be that has not been seen yet; if so it is looked at again."""
        if ("create-pod", trial.name) in self._dispatch:
            return True
        if trial.pod is not None or now >= trial.unseen.creation_until:
            return False
        self._dispatch.alarms.set(trial.name, trial.unseen.creation_until)
        return True

    def free(self, limit: int) -> int:
        """How many more trials may have a pod; negative where the limit was lowered."""
        return limit - len(self._holders)

    def queued(self, now: float) -> int:
        """How many trials wait for a place that they could take at once."""
        return sum(
            1 for trial in self._waiting.values() if trial.name not in self._holders and trial.may_start_at() <= now
        )

    def fill(self, limit: int, now: float) -> None:
        """Asks for the pods of as many waiting trials as there are places, as the scheduler picks them."""
        ready = sorted(
            (trial for trial in self._waiting.values() if self._may_start(trial, now)),
            key=lambda trial: (trial.may_start_at(), trial.index),
        )
        for trial in ready:
            if trial.name in self._holders:
                self._start(trial, now)
        by_index = {trial.index: trial for trial in ready if trial.name not in self._holders}
        while by_index and self.free(limit) > 0:
            chosen = self._scheduler.choose(list(by_index))
            if chosen is None:
                return
            self._start(by_index.pop(chosen.trial), now)

    def _may_start(self, trial: TrialMachine, now: float) -> bool:
        at = max(trial.may_start_at(), self._dispatch.ready_at(("create-pod", trial.name)))
        if now < at < NEVER:
            self._dispatch.alarms.set(trial.name, at)
        return at <= now

    def _start(self, trial: TrialMachine, now: float) -> None:
        asked = self._dispatch.ask(
            CreatePod(
                trial=trial.name,
                trial_uid=trial.uid,
                attempt=trial.attempt,
                spec=trial.spec,
                restore=tuple(reversed(trial.saved.checkpoints)),
                iteration=trial.saved.iteration,
            ),
            now,
            trial.name,
        )
        if asked:
            self._holders.add(trial.name)
            del self._waiting[trial.name]
