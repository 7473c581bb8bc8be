"""A scheduler that asks for everything that one may ask for, at rungs, by the numbers that a seed draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from typing_extensions import override

from podtune.api.resources.experiment import ExperimentSpec
from podtune.tuning.randomness import build_generator
from podtune.tuning.schedulers.base import (
    CONTINUE,
    Exploit,
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
)
from podtune.tuning.searchers.base import Configuration


@dataclass(frozen=True)
class Script:
    """Shares of what becomes of a trial at a rung, and of a paused one.

    Attributes:
        pause: It pauses there.
        exploit: It clones another one.
        stop: It is stopped.
        start_clone: Of the paused ones that go on: as a clone.
        keep: Of the paused ones: never goes on.
        stop_paused: Of those: is stopped.
        synchronous: The paused go on only once no trial will be added.
        distance: Iterations from one rung to the next.
    """

    pause: float = 0.0
    exploit: float = 0.0
    stop: float = 0.0
    start_clone: float = 0.0
    keep: float = 0.0
    stop_paused: float = 0.0
    synchronous: bool = False
    distance: int = 2


@dataclass(frozen=True)
class State:
    """What the scheduler remembers of a trial."""

    rungs: int = 0
    paused: bool = False
    starts: int = 0


class Scripted(Scheduler):
    """Follows a script; what it draws depends on the seed, the trial, and how far that is."""

    def __init__(self, script: Script, seed: int = 0) -> None:
        self.script = script
        self.seed = seed
        self.states: dict[int, State] = {}
        self.configurations: dict[int, Configuration] = {}
        self.removed: set[int] = set()
        self.completed: set[int] = set()
        self.search_over = False
        self.pausing: int | None = None
        """A trial that was told to clone another one, just now: it does so only if that has a checkpoint."""

    def draw(self, purpose: str, trial: int) -> float:
        state = self.states[trial]
        return build_generator(self.seed, purpose, trial, state.rungs).random()

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self.states[trial] = State()
        self.configurations[trial] = configuration

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        state = self.states[trial]
        self.pausing = None
        assert not state.paused, f"a result of trial {trial}, which is paused"
        time = metrics[self.time_attribute]
        milestone = (state.rungs + 1) * self.script.distance
        assert isinstance(time, int)
        if time < milestone:
            return CONTINUE
        self.states[trial] = replace(state, rungs=state.rungs + 1)
        drawn, inputs = self.draw("verdict", trial), {"rung": milestone, "time": time}
        said = f"at rung {milestone}"
        if drawn < self.script.stop:
            return SchedulerDecision(SchedulerAction.STOP, f"stopped {said}", inputs, recorded=True)
        if drawn < self.script.stop + self.script.exploit:
            exploit = self.exploit(trial)
            self.pausing = trial
            return SchedulerDecision(
                SchedulerAction.PAUSE, f"clones {exploit.donor} {said}", inputs, recorded=True, exploit=exploit
            )
        if drawn < self.script.stop + self.script.exploit + self.script.pause:
            self.states[trial] = replace(self.states[trial], paused=True)
            return SchedulerDecision(SchedulerAction.PAUSE, f"paused {said}", inputs, recorded=True)
        return SchedulerDecision(
            SchedulerAction.CONTINUE, f"went on {said}", inputs, recorded=True, wants_checkpoint=drawn > 0.9
        )

    def exploit(self, trial: int) -> Exploit:
        """From one of the first trials that there are, with the trial's own values made a little smaller."""
        donors = [donor for donor in range(4) if donor != trial]
        donor = build_generator(self.seed, "donor", trial, self.states[trial].rungs).choice(donors)
        own = self.configurations[trial]
        return Exploit(donor, {name: value * 0.9 for name, value in own.items() if isinstance(value, float)})

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        self.configurations[trial] = configuration
        if self.pausing == trial:
            self.states[trial] = replace(self.states[trial], paused=True)
        self.pausing = None

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        assert trial not in self.completed
        self.completed.add(trial)
        return False

    @override
    def on_trial_error(self, trial: int) -> None:
        """Does nothing."""

    @override
    def on_trial_remove(self, trial: int) -> None:
        assert trial not in self.removed | self.completed
        self.removed.add(trial)

    @override
    def forget(self, trial: int) -> None:
        """Does nothing: the machine is made anew."""

    @override
    def on_search_over(self) -> None:
        assert not self.search_over
        self.search_over = True

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        for trial in waiting:
            state = self.states[trial]
            if not state.paused:
                return StartDecision(trial)
            if (self.search_over or not self.script.synchronous) and self.draw("keep", trial) >= self.script.keep:
                clones = self.draw("start", trial) < self.script.start_clone
                self.states[trial] = replace(state, paused=False, starts=state.starts + 1)
                inputs = {"rungs": state.rungs}
                message = f"goes on after {state.rungs} rungs"
                exploit = self.exploit(trial) if clones else None
                return StartDecision(trial, message, inputs, recorded=True, exploit=exploit)
        return None

    @override
    def trials_to_stop(self) -> Sequence[StopPaused]:
        return [
            StopPaused(trial, f"given up after {state.rungs} rungs", {"rungs": state.rungs})
            for trial, state in sorted(self.states.items())
            if state.paused
            and trial not in self.removed
            and (self.search_over or not self.script.synchronous)
            and self.draw("keep", trial) < self.script.keep * self.script.stop_paused
        ]

    @override
    def rungs_passed(self, trial: int) -> int:
        return self.states[trial].rungs

    @override
    def record(self, trial: int) -> Record:
        state = self.states[trial]
        if state == State():
            return {}
        values = {"rungs": str(state.rungs), "paused": str(state.paused), "starts": str(state.starts)}
        return {"state": values}

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        values = record["state"]
        self.configurations[trial] = configuration
        self.states[trial] = State(int(values["rungs"]), values["paused"] == "True", int(values["starts"]))

    @property
    @override
    def time_attribute(self) -> str:
        return "training_iteration"


class Dictated(Scheduler):
    """Says what a test has it say; keeps what it was told."""

    def __init__(self, decisions: Mapping[tuple[int, int], SchedulerDecision] | None = None) -> None:
        self.decisions = dict(decisions or {})
        """By trial and iteration."""
        self.pick: Callable[[Dictated, Sequence[int]], StartDecision | None] = lambda scheduler, waiting: StartDecision(
            waiting[0]
        )
        self.gives_up: list[StopPaused] = []
        self.every_result = False
        self.rungs: dict[int, int] = {}
        self.told: list[str] = []
        self.results: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.offered: list[list[int]] = []

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self.told.append(f"add {trial}")

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        step = metrics["training_iteration"]
        assert isinstance(step, int)
        self.results.append((trial, step))
        self.waiting.append(waiting)
        seen_before = self.results.count((trial, step)) > 1  # by a clone, which goes on from an earlier iteration
        return CONTINUE if seen_before else self.decisions.get((trial, step), CONTINUE)

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        self.told.append(f"complete {trial}")
        return False

    @override
    def on_trial_error(self, trial: int) -> None:
        self.told.append(f"error {trial}")

    @override
    def on_trial_remove(self, trial: int) -> None:
        self.told.append(f"remove {trial}")
        self.gives_up = [stop for stop in self.gives_up if stop.trial != trial]

    @override
    def forget(self, trial: int) -> None:
        """Does nothing: the machine is made anew."""

    @override
    def on_configuration(self, trial: int, configuration: Configuration) -> None:
        self.told.append(f"configuration {trial}")

    @override
    def on_search_over(self) -> None:
        self.told.append("search over")

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        self.offered.append(list(waiting))
        return self.pick(self, waiting)

    @override
    def trials_to_stop(self) -> Sequence[StopPaused]:
        return self.gives_up

    @override
    def rungs_passed(self, trial: int) -> int:
        return self.rungs.get(trial, 0)

    @override
    def record(self, trial: int) -> Record:
        seen = sorted(step for index, step in self.results if index == trial)
        if self.every_result:
            return {"curve": {str(step): "" for step in seen}} if seen else {}
        said = [step for step in seen if (trial, step) in self.decisions]
        return {"said": {str(step): "" for step in said}} if said else {}

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self.told.append(f"restore {trial}")
        self.results.extend((trial, int(step)) for steps in record.values() for step in steps)

    @property
    @override
    def records_every_result(self) -> bool:
        return self.every_result

    @property
    @override
    def time_attribute(self) -> str:
        return "training_iteration"


def dictated(scheduler: Dictated) -> Callable[[ExperimentSpec], Scheduler]:
    """What makes a machine's scheduler: always the same one, which outlives the machine."""
    return lambda spec: scheduler


def scripted(script: Script, seed: int = 0) -> Callable[[ExperimentSpec], Scheduler]:
    """What makes a machine's scheduler."""

    def make(spec: ExperimentSpec) -> Scheduler:
        return Scripted(script, seed)

    return make
