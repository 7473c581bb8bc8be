"""One Experiment, with everything known about it and the machine that decides for it.

One thread owns all machines: that of the event loop. A machine of many Trials is made, or made anew, a few steps at a
time, so that nothing else on the loop waits for it. Until it is done:

- `machine` is None, so nobody can ask the machine anything, and nothing is decided;
- results are refused, and their agents send them again;
- objects that are seen go on being kept here and in the store, and each event waits in the build. The machine hears of
  all of them, in their order, as the last steps of its build: so it misses nothing, and nothing changes under it.

If a step fails, the machine is dropped. The next one is made of what is kept here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Protocol

import structlog

from podtune.controllers.store.stalled import Stalled
from podtune.runner.actions import Action, ActionResult
from podtune.runner.experiment_machine import ExperimentMachine
from podtune.runner.records import Experiment, StoragePod, Trial
from podtune.runner.steps import BuildSteps

log = structlog.get_logger(__name__)

StateEvent = Callable[[ExperimentMachine], None]

STEPS_AT_A_TIME = 100
"""Steps of a build that are done in one turn of the event loop: a few milliseconds."""
FEW_TRIALS = 200
"""The machine of so many Trials is made in a single turn, so that none of their results has to be refused."""


class ObjectListener(Protocol):
    """Hears of each Experiment and Trial as the API server has it; what it does with that must take no time."""

    def observe_experiment(self, experiment: Experiment) -> None:
        """An Experiment, as it is now."""

    def observe_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial, as it is now."""

    def forget_experiment(self, experiment: Experiment) -> None:
        """An Experiment that was deleted, as it was last seen."""

    def forget_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial that was deleted, as it was last seen."""


class MachineBuild:
    """A machine that is being built or rebuilt."""

    def __init__(self, machine: ExperimentMachine, steps: BuildSteps) -> None:
        """Begins a build.

        Args:
            machine: The machine; but for its spec, nothing may be asked of it yet.
            steps: What makes it.
        """
        self.machine = machine
        self.missed: deque[StateEvent] = deque()
        """What was seen meanwhile: the machine hears of it once the steps are done."""
        self._steps = chain(steps, self._apply_missed())

    def advance(self) -> bool:
        """Does the next steps; whether none is left."""
        return sum(1 for _ in islice(self._steps, STEPS_AT_A_TIME)) < STEPS_AT_A_TIME

    def _apply_missed(self) -> BuildSteps:
        while self.missed:
            self.missed.popleft()(self.machine)
            yield


@dataclass(slots=True)
class ExperimentEntry:
    """One Experiment. It has a machine, or a build of one, once it has had a spec that can be used; never both."""

    experiment: Experiment
    stalled: Stalled
    machine: ExperimentMachine | None = None
    build: MachineBuild | None = None
    trials: dict[str, Trial] = field(default_factory=dict)
    storage_pods: dict[str, StoragePod] = field(default_factory=dict)
    """By UID."""
    bar: str | None = None
    """Why it may not be served, whatever its spec; empty while that is not known, None where it may."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be served: an imported one only when all its Trials are here, with their records.

        Otherwise the missing Trials would be recreated.
        """
        experiment = self.experiment
        if self.bar is not None or experiment.spec is None or experiment.importing:
            return False
        recorded = sum(trial.status.state is not None for trial in self.trials.values()) if experiment.imported else 0
        return recorded >= experiment.imported

    @property
    def served(self) -> Experiment:
        """The Experiment with the spec that its machine works by, even if a later one can't be used."""
        machine = self.build.machine if self.build is not None else self.machine
        return self.experiment if machine is None else replace(self.experiment, spec=machine.spec)

    def apply(self, event: StateEvent) -> bool:
        """Applies an event to the machine; while the machine is being built, the event waits.

        Returns:
            Whether that succeeded. A machine that fails on the event is rebuilt from everything known.
        """
        if self.build is not None:
            self.build.missed.append(event)
        elif self.machine is not None:
            try:
                event(self.machine)
            except Exception:
                log.exception(
                    "machine rebuilt: it failed on an event",
                    namespace=self.experiment.namespace,
                    experiment=self.experiment.name,
                )
                self.drop_machine()
                return False
        return True

    def on_action_result(self, action: Action, result: ActionResult, now: float) -> bool:
        """Tells who has asked for an action how it went; see `apply`."""
        if self.machine is None and self.build is None:
            self.stalled.on_action_result(self.experiment, action, result, now)
            return True
        return self.apply(lambda machine: machine.on_action_result(action, result, now))

    def begin_build(self, machine: ExperimentMachine, steps: BuildSteps) -> None:
        """Builds or rebuilds the machine: right now if there are few Trials, otherwise through `continue_build`."""
        self.machine, self.build = None, MachineBuild(machine, steps)
        if len(self.trials) <= FEW_TRIALS:
            while self.build is not None:
                self.continue_build()

    def continue_build(self) -> None:
        """Does the next steps of the build; after the last, the machine is there."""
        build = self.build
        assert build is not None  # the caller has looked
        try:
            is_done = build.advance()
        except Exception:
            self.drop_machine()
            raise
        if is_done:
            self.machine, self.build = build.machine, None

    def drop_machine(self) -> None:
        """Drops the machine: it is rebuilt from everything known when it is next needed."""
        self.machine = self.build = None
