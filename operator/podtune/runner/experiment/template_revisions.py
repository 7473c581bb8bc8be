"""The revisions of an experiment's trial template: which there have been, and how many trials run what.

They are kept for people, as ControllerRevisions. Nothing that is decided rests on what these hold: an attempt is made
from the template as it is, or goes on with the pods that it has. So one that can't be kept, or is lost, costs nothing
but a page of history.
"""

from __future__ import annotations

from collections import Counter

from typing_extensions import override

from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial_template import MAX_REVISIONS, TemplateRevision, TemplateStatus
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, DropRevision, KeepRevision
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.revisions import find_recorded_revision
from podtune.runner.trials import TrialIndex


def find_first_revision(status: ExperimentStatus, spec: ExperimentSpec) -> str:
    """The revision of trials whose status names none."""
    return status.template.first if status.template is not None else spec.template_revision


class TemplateRevisions(TrialIndex):
    """Knows who runs which revision, and has those kept that somebody may want to look at."""

    def __init__(self, experiment: str, status: ExperimentStatus, spec: ExperimentSpec, actions: ActionQueue) -> None:
        """Knows of no trial yet: see `update`.

        Args:
            experiment: Name of the Experiment.
            status: Its status.
            spec: The spec that it is served by.
            actions: Takes what is to be kept and dropped.
        """
        self._experiment = experiment
        self._actions = actions
        self._spec = spec
        self._kept = list(status.template.revisions) if status.template is not None else []
        self._revision_of: dict[str, str] = {}
        """By trial that has pods: the revision that they are made from."""
        self._running: Counter[str] = Counter()

    @override
    def update(self, trial: TrialMachine, now: float) -> None:
        before = self._revision_of.pop(trial.name, None)
        if before is not None:
            self._running[before] -= 1
        if trial.current.pods and not trial.is_finished:
            self._revision_of[trial.name] = revision = find_recorded_revision(trial)
            self._running[revision] += 1

    def take_spec(self, spec: ExperimentSpec) -> None:
        """Goes by another spec from now on."""
        self._spec = spec

    def decide(self, best: TrialMachine | None, now: float) -> None:
        """Has the present revision kept, and those dropped that nobody runs and the best trial has not run."""
        present, kept = self._spec.template_revision, [revision.name for revision in self._kept]
        is_new = kept[-1:] != [present]
        wanted = {present, *kept[-1:], find_recorded_revision(best) if best is not None else ""}
        others = [revision for revision in kept if revision != present]
        # What the status has no room to list would never be dropped.
        surplus = others[: max(0, len(others) + 1 - MAX_REVISIONS)]
        for revision in kept:
            if revision in surplus or (revision not in wanted and not self._running[revision]):
                self._actions.enqueue(DropRevision(f"{self._experiment}-{revision}", revision), now)
        if is_new and not surplus:
            number = self._kept[-1].number + 1 if self._kept else 1
            name = f"{self._experiment}-{present}"
            second = self._spec.evaluation.template if self._spec.evaluation is not None else None
            self._actions.enqueue(KeepRevision(name, present, number, self._spec.trial_template, second), now)

    def on_action_result(self, action: KeepRevision | DropRevision, result: ActionResult, now: float) -> None:
        """Hears how an action went: the status lists what is kept."""
        if result.status is not ActionStatus.DONE:
            return
        others = [revision for revision in self._kept if revision.name != action.revision]
        if isinstance(action, KeepRevision):
            kept = TemplateRevision(name=action.revision, number=action.number, time=format_rfc3339(now))
            others.append(kept)
        self._kept = others

    def build_status(self, status: ExperimentStatus, spec: ExperimentSpec) -> TemplateStatus:
        """What the Experiment's status says of them."""
        return TemplateStatus(first=find_first_revision(status, spec), revisions=self._kept[-MAX_REVISIONS:])

    def describe_outdated(self) -> str:
        """How many trials run another revision than the present one; empty where none does."""
        present = self._spec.template_revision
        outdated = [(count, name) for name, count in self._running.items() if count and name != present]
        if not outdated:
            return ""
        numbers = {revision.name: f"{revision.number}" for revision in self._kept}
        parts = (
            f"{count} {'trial runs' if count == 1 else 'trials run'} template revision {numbers.get(name, name)}"
            for count, name in sorted(outdated, reverse=True)
        )
        return f"{', '.join(parts)}; new attempts take the present one"
