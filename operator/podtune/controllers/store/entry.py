"""One Experiment, with all that is known of it and the machine that decides for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from podtune.api.resources.experiment import ExperimentSpec
from podtune.controllers.store.stalled import Stalled
from podtune.runner.actions import Action, ActionResult
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, StoragePod, Trial

log = structlog.get_logger(__name__)

StateEvent = Callable[[ExperimentMachine], None]


@dataclass(slots=True)
class OffloadedDecision:
    """A decision that takes long, and so is made in a thread: until then nobody else has the machine."""

    spec: ExperimentSpec
    missed: list[StateEvent] = field(default_factory=list)


@dataclass(slots=True)
class ExperimentEntry:
    """One Experiment. It has a machine once it has had a spec that can be used."""

    experiment: Experiment
    stalled: Stalled
    machine: ExperimentMachine | None = None
    """None also while a decision is offloaded."""
    offloaded: OffloadedDecision | None = None
    trials: dict[str, Trial] = field(default_factory=dict)
    storage_pods: dict[str, StoragePod] = field(default_factory=dict)
    """By UID."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be served: one that is imported only when all its Trials are here, with what they recorded.

        Otherwise the Trials that are still to come would be made anew.
        """
        experiment = self.experiment
        if experiment.spec is None or experiment.importing:
            return False
        recorded = sum(trial.status.state is not None for trial in self.trials.values()) if experiment.imported else 0
        return recorded >= experiment.imported

    @property
    def served(self) -> Experiment:
        """The Experiment with the spec that its machine works by, even if a later one can't be used."""
        holder = self.machine or self.offloaded
        return self.experiment if holder is None else replace(self.experiment, spec=holder.spec)

    def apply(self, event: StateEvent) -> bool:
        """Applies an event to the machine; while a decision is offloaded, the event waits for the machine.

        Returns:
            Whether all went well. A machine that fails on the event is made anew of all that is known.
        """
        if self.offloaded is not None:
            self.offloaded.missed.append(event)
        elif self.machine is not None:
            try:
                event(self.machine)
            except Exception:
                log.exception("machine made anew: it failed on an event", experiment=self.experiment.name)
                self.drop_machine()
                return False
        return True

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> bool:
        """Tells who has asked for an action how it went; see `apply`."""
        if self.machine is None and self.offloaded is None:
            self.stalled.on_action_result(self.experiment, action, result, now)
            return True
        return self.apply(lambda machine: machine.on_action_result(action, result, now))

    def offload(self) -> OffloadedDecision:
        """Hands the machine, if there is one yet, to a thread; what is seen meanwhile waits."""
        spec = self.served.spec
        assert spec is not None  # else there is nothing to decide
        self.machine, self.offloaded = None, OffloadedDecision(spec)
        return self.offloaded

    def take_back(self, offloaded: OffloadedDecision, machine: ExperimentMachine | None) -> bool:
        """Takes the machine back, or the first one there is, and applies what it has missed.

        Returns:
            Whether what it has decided counts: not if the machine was dropped meanwhile.
        """
        if self.offloaded is not offloaded:
            return False
        self.machine, self.offloaded = machine, None
        return all(self.apply(event) for event in offloaded.missed)

    def drop_machine(self) -> None:
        """Lets go of the machine: it is made anew of all that is known when it is asked for again."""
        self.machine = self.offloaded = None
