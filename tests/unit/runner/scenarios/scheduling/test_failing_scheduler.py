"""A scheduler of another package that fails: the experiment says so, loses nothing, and goes on once it works again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialReason, TrialState
from podtune.protocol.messages import Reply, Report
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.schedulers.base import (
    Metrics,
    Record,
    Scheduler,
    SchedulerAction,
    SchedulerDecision,
    StartDecision,
    StopPaused,
)
from podtune.tuning.searchers.base import Configuration
from tests.entry_points import make_installation
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import FAIR, STORE, Simulation, Weather, spec

FOREVER = 10**6
PLUGIN: dict[str, Any] = {"scheduler": {"plugin": {"name": "counting"}}, "checkpoints": {"store": STORE}}


class Defect:
    """What is wrong with the installed version."""

    def __init__(self) -> None:
        self.hook = ""
        self.answer: object = None
        """What it answers instead of raising."""
        self.made: list[Counting] = []
        self.asked = 0
        """How often the hook that fails was called."""


DEFECT = Defect()


class Counting(Scheduler):
    """Counts each trial's results, and stops the trial at the iteration that its settings say.

    It takes a result in before it fails on it: who goes on with it counts that twice.
    """

    def __init__(self, **arguments: Any) -> None:
        self._last = arguments["settings"].get("last", FOREVER)
        self._counts: dict[int, int] = {}
        self.told: list[str] = []
        DEFECT.made.append(self)
        self._meet("__init__")

    def _meet(self, hook: str) -> Any:
        if DEFECT.hook != hook:
            return None
        DEFECT.asked += 1
        if DEFECT.answer is None:
            raise RuntimeError("out of order")
        return DEFECT.answer

    @property
    @override
    def time_attribute(self) -> str:
        return "training_iteration"

    @override
    def on_trial_add(self, trial: int, configuration: Configuration) -> None:
        self._meet("on_trial_add")

    @override
    def on_result(self, trial: int, metrics: Metrics, *, waiting: int = 0) -> SchedulerDecision:
        step = metrics["training_iteration"]
        assert isinstance(step, int)
        self._counts[trial] = self._counts.get(trial, 0) + 1
        self.told.append(f"result {step} of {trial}")
        answer = self._meet("on_result")
        if answer is not None:
            return answer  # type: ignore[no-any-return]
        if step < self._last:
            return SchedulerDecision(SchedulerAction.CONTINUE, recorded=True)
        message = f"stopped at iteration {step}, at or after {self._last}"
        return SchedulerDecision(SchedulerAction.STOP, message, {"iteration": step}, recorded=True)

    @override
    def on_trial_complete(self, trial: int, metrics: Metrics) -> bool:
        self.told.append(f"completion of {trial} at {metrics.get('training_iteration')}")
        self._meet("on_trial_complete")
        return False

    @override
    def on_trial_error(self, trial: int) -> None:
        self._meet("on_trial_error")

    @override
    def on_progress(self, trial: int, time: float) -> None:
        self._meet("on_progress")

    @override
    def choose(self, waiting: Sequence[int]) -> StartDecision | None:
        return self._meet("choose") or StartDecision(waiting[0])

    @override
    def trials_to_stop(self) -> Sequence[StopPaused]:
        self._meet("trials_to_stop")
        return ()

    @override
    def on_search_over(self) -> None:
        self._meet("on_search_over")

    @override
    def record(self, trial: int) -> Record:
        self._meet("record")
        return {"counting": {"results": str(self._counts[trial])}} if trial in self._counts else {}

    @override
    def restore(self, trial: int, record: Record, configuration: Configuration) -> None:
        self._meet("restore")
        self._counts[trial] = int(record["counting"]["results"])


installed = make_installation(EntryPoint("counting", f"{__name__}:Counting", "podtune.schedulers"))


@pytest.fixture(autouse=True)
def repaired() -> Iterator[None]:
    DEFECT.__init__()  # type: ignore[misc]
    yield
    DEFECT.__init__()  # type: ignore[misc]


class Watched(Simulation):
    """A simulation that keeps what agents are answered."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.replies: list[Any] = []
        super().__init__(*arguments, **named)

    def post(self, trial: str, pod: str, report: Report) -> Any:
        answer = super().post(trial, pod, report)
        self.replies.append(answer)
        return answer


def simulated(program: Program, /, weather: Weather = FAIR, seed: int = 0, **fields: Any) -> Watched:
    DEFECT.made.clear()
    return Watched(spec(**{**PLUGIN, **fields}), program, weather, seed=seed)


def defect(hook: str, answer: object = None) -> None:
    DEFECT.hook, DEFECT.answer, DEFECT.asked = hook, answer, 0


def stalled(simulation: Simulation) -> tuple[str, str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.STALLED)
    assert found is not None
    return found.status, found.reason, found.message


def plugin_events(simulation: Simulation) -> list[str]:
    return [event.message for event in simulation.events if event.reason == ExperimentReason.PLUGIN_FAILED]


def counts(simulation: Simulation) -> list[Mapping[str, Mapping[str, str]]]:
    return [trial.status.scheduler for _, trial in sorted(simulation.api.trials.items())]


def ends(simulation: Simulation) -> list[tuple[str, int, str]]:
    statuses = [trial.status for _, trial in sorted(simulation.api.trials.items())]
    return [(status.reason, status.iteration, status.message) for status in statuses]


def test_people_are_told_which_hook_has_failed_with_what_and_what_to_do() -> None:
    simulation = simulated(Program(steps=FOREVER)).run(3.2)
    defect("on_result")
    simulation.run(60.0)
    said = (
        "spec.scheduler.plugin: 'counting' failed in on_result() for trial 0 (RuntimeError: out of order); install a "
        "corrected version in the operator's image; Podtune tries it again within a minute, and when the spec changes; "
        "until then no trial starts, and running trials train on without it"
    )
    assert simulation.api.experiment.status.state is ExperimentState.STALLED
    assert stalled(simulation) == ("True", ExperimentReason.PLUGIN_FAILED, said)
    assert plugin_events(simulation) == [said]
    (event,) = [event for event in simulation.events if event.reason == ExperimentReason.PLUGIN_FAILED]
    assert event.warning
    assert 'raise RuntimeError("out of order")' in event.trace
    assert "scheduler.plugin has failed, so it decides nothing on this trial yet" in simulation.status(0).message


def test_reports_are_answered_and_results_recorded_all_the_same() -> None:
    simulation = simulated(Program(steps=FOREVER))
    simulation.run(3.2)
    defect("on_result")
    simulation.replies.clear()
    simulation.run(60.0)
    assert simulation.replies
    assert all(isinstance(answer, Reply) for answer in simulation.replies)
    assert simulation.replies[-1].acked_seq >= 60
    assert simulation.replies[-1].durable_seq >= 55
    status = simulation.status(0)
    assert status.iteration >= 55
    assert status.last_result["training_iteration"] == str(status.iteration)
    assert status.unheard == ["Result"]
    assert int(status.scheduler["counting"]["results"]) <= 4


def test_once_it_works_again_it_hears_the_last_result_and_what_it_decides_is_done() -> None:
    simulation = simulated(Program(steps=FOREVER), scheduler={"plugin": {"name": "counting", "settings": {"last": 9}}})
    simulation.run(5.2)
    defect("on_result")
    simulation.run(40.0)
    assert not any(trial.status.state.is_finished for trial in simulation.api.trials.values() if trial.status.state)
    defect("")
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert stalled(simulation)[0] == "False"
    reasons = [(reason, iteration > 9) for reason, iteration, _ in ends(simulation)]
    assert reasons == [(TrialReason.STOPPED_BY_SCHEDULER, late) for late in (True, True, False, False)]
    assert simulation.status(2).iteration == 9
    assert all(trial.status.unheard == [] for trial in simulation.api.trials.values())


def test_nobody_goes_on_with_a_scheduler_that_has_taken_in_half_of_something() -> None:
    """It had counted the result that it failed on, and would count it once more."""
    simulation = simulated(Program(steps=12), search={"algorithm": "random", "maxTrials": 2, "seed": 7})
    simulation.run(5.2)
    defect("on_result")
    simulation.run(0.7)
    failed = DEFECT.made[-1] if DEFECT.made[-1].told else DEFECT.made[-2]
    defect("")
    simulation.run()
    assert DEFECT.made[-1] is not failed
    for record in counts(simulation):
        assert int(record["counting"]["results"]) <= 12


def test_trials_that_end_meanwhile_are_told_of_with_their_last_results() -> None:
    simulation = simulated(Program(steps=8), search={"algorithm": "random", "maxTrials": 4, "seed": 7}).run(5.2)
    defect("on_result")
    simulation.run(60.0)
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.COMPLETED] * 2
    assert simulation.status(0).unheard == ["Result", "Completion"]
    defect("")
    simulation.run(70.0)
    told = DEFECT.made[-1].told
    assert told[:4] == ["result 8 of 0", "completion of 0 at 8", "result 8 of 1", "completion of 1 at 8"]
    simulation.run()
    assert len(simulation.api.trials) == 4
    assert [trial.status.unheard for trial in simulation.api.trials.values()] == [[]] * 4


@pytest.mark.parametrize(
    "hook",
    ["choose", "trials_to_stop", "on_trial_complete", "on_trial_add", "record", "on_search_over", "on_result"],
)
def test_whichever_hook_fails_the_experiment_waits_and_comes_to_its_end(hook: str) -> None:
    simulation = simulated(Program(steps=4))
    defect(hook)
    simulation.run(120.0)
    assert DEFECT.asked
    assert stalled(simulation)[:2] == ("True", ExperimentReason.PLUGIN_FAILED)
    assert f"failed in {hook}()" in stalled(simulation)[2]
    defect("")
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.COMPLETED] * 4


@pytest.mark.parametrize("hook", ["restore", "on_trial_error", "__init__"])
def test_nor_does_one_that_fails_when_it_is_made_again(hook: str) -> None:
    crash = {0: (ScheduledFault(Fault.CRASH, 8),)}
    simulation = simulated(Program(steps=30, faults=crash)).run(5.2)
    defect("on_result")
    simulation.run(9.0)
    defect(hook)
    simulation.run(80.0)
    if hook != "on_trial_error":  # that is told to nobody later
        assert stalled(simulation)[:2] == ("True", ExperimentReason.PLUGIN_FAILED)
    defect("")
    simulation.run()
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.COMPLETED] * 4


@pytest.mark.parametrize(
    ("hook", "answer", "problem"),
    [
        ("on_result", "STOP", "TypeError: returned 'STOP'; return a SchedulerDecision"),
        ("on_result", SchedulerDecision("HALT"), "ValueError: 'HALT' is not a valid SchedulerAction"),  # type: ignore[arg-type]
        ("choose", StartDecision(77), "ValueError: returned trial 77, which does not wait; return one that does"),
        ("choose", 0.5, "TypeError: returned 0.5; return a StartDecision"),
    ],
)
def test_an_answer_that_is_none_is_a_failure_too(hook: str, answer: object, problem: str) -> None:
    simulation = simulated(Program(steps=FOREVER))
    defect(hook, answer)
    simulation.run(20.0)
    assert f"failed in {hook}()" in stalled(simulation)[2]
    assert f"({problem}); install a corrected version" in stalled(simulation)[2]


def test_it_is_tried_again_less_and_less_often_up_to_once_a_minute() -> None:
    simulation = simulated(Program(steps=FOREVER)).run(5.2)
    defect("on_result")
    simulation.run(600.0)
    assert 10 <= len(DEFECT.made) <= 40
    assert len(plugin_events(simulation)) == 1


def test_a_change_of_the_spec_has_it_tried_at_once() -> None:
    simulation = simulated(Program(steps=FOREVER)).run(5.2)
    defect("on_result")
    simulation.run(600.0)
    defect("")
    simulation.api.allowed_alive = 3
    simulation.edit_spec(max_concurrent_trials=3)
    simulation.run(3.0)
    assert stalled(simulation)[0] == "False"
    assert len(simulation.api.trials) == 3


def test_users_can_stop_trials_and_the_experiment_meanwhile() -> None:
    simulation = simulated(Program(steps=FOREVER)).run(5.2)
    defect("on_result")
    simulation.run(20.0)
    simulation.edit_spec(stop=simulation.api.experiment.spec.stop.model_copy(update={"now": True}))
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.STOPPED_BY_EXPERIMENT] * 2


def test_a_failed_pod_is_retried_when_the_scheduler_works_again() -> None:
    crash = {0: (ScheduledFault(Fault.CRASH, 8),)}
    simulation = simulated(Program(steps=20, checkpoint_every=2, faults=crash)).run(5.2)
    defect("on_result")
    simulation.run(30.0)
    assert simulation.status(0).state is TrialState.PENDING
    defect("")
    simulation.run()
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.COMPLETED] * 4


@given(
    times=st.tuples(st.floats(0.5, 12.0), st.floats(0.1, 30.0)),
    hook=st.sampled_from(["on_result", "choose", "record", "on_trial_complete", "restore", "trials_to_stop"]),
    restarts=st.lists(st.floats(0.5, 12.0), max_size=3),
    crash=st.integers(1, 9),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=draw(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whenever_it_fails_and_the_operator_is_restarted_each_trial_ends_as_it_should(
    times: tuple[float, float], hook: str, restarts: list[float], crash: int, seed: int
) -> None:
    defect("")
    program = Program(steps=14, checkpoint_every=2, faults={1: (ScheduledFault(Fault.CRASH, crash),)})
    loses = (seed % 2) * 0.3
    weather = Weather(latency=0.2, loses_report=loses, loses_reply=loses / 3, restarts=tuple(restarts))
    fields = {"scheduler": {"plugin": {"name": "counting", "settings": {"last": 9}}}}
    simulation = simulated(program, weather, seed, **fields)
    simulation.run(times[0])
    defect(hook)
    simulation.run(times[1])
    defect("")
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    for trial in simulation.api.trials.values():
        status = trial.status
        stopped = status.reason == TrialReason.STOPPED_BY_SCHEDULER and 9 <= status.iteration <= 14
        assert stopped or (status.reason == TrialReason.COMPLETED and status.iteration == 14)
        assert status.unheard == []
        assert int(status.scheduler["counting"]["results"]) <= status.iteration
