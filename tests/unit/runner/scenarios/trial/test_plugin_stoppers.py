"""Stoppers of other packages: what they remember survives restarts, and one that fails stalls the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.conditions import find_condition
from podtune.api.names import ConditionType, ExperimentReason, ExperimentState, TrialReason
from podtune.api.tuning.stop import Stop
from podtune.simulation.faults import Fault, ScheduledFault
from podtune.tuning.schedulers.base import Metrics, require_number
from podtune.tuning.stoppers.base import Finding, Stopper
from tests.entry_points import make_installation
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import STORE, Simulation, Weather, spec

STOP: dict[str, Any] = {"trial": [{"plugin": {"name": "total", "settings": {"limit": 3.0}}}]}
FOREVER = 10**6


class Total(Stopper):
    """Stops a trial when its values add up to a limit: a result that is lost or counted twice changes that."""

    def __init__(self, **arguments: Any) -> None:
        self._limit: float = arguments["settings"]["limit"]
        self._total = 0.0

    @override
    def on_result(self, metrics: Metrics) -> Finding | None:
        if "bomb" in metrics:
            raise RuntimeError("out of order")
        self._total += require_number(metrics, "accuracy")
        if self._total < self._limit:
            return None
        return Finding(f"the total {self._total} is at least {self._limit}", {"total": self._total})

    @override
    def record(self) -> Mapping[str, str]:
        return {"total": repr(self._total)}

    @override
    def restore(self, record: Mapping[str, str]) -> None:
        self._total = float(record["total"])


installed = make_installation(EntryPoint("total", f"{__name__}:Total", "podtune.stoppers"))


def value(trial: int, step: int) -> float:
    return (trial + step) % 5 / 8


def stalled(simulation: Simulation) -> tuple[str, str, str]:
    found = find_condition(simulation.api.experiment.status.conditions, ConditionType.STALLED)
    assert found is not None
    return found.status, found.reason, found.message


def ends(simulation: Simulation) -> list[tuple[str, int, str]]:
    statuses = [trial.status for _, trial in sorted(simulation.api.trials.items())]
    return [(status.reason, status.iteration, status.message) for status in statuses]


def test_a_trial_ends_by_what_its_stopper_has_found_and_its_status_holds_what_that_remembers() -> None:
    simulation = Simulation(spec(stop=STOP), Program(steps=FOREVER, metric=value)).run(4.0)
    assert simulation.status(0).stopper["plugins"]["total"].startswith('{"record": {"total": "')
    simulation.run()
    message = "stopped: the total 3.25 is at least 3.0, as stop.trial[0].plugin asks"
    assert ends(simulation)[0] == (TrialReason.STOPPED_BY_CRITERION, 13, message)
    assert simulation.status(0).stopper == {}
    assert simulation.status(0).ledger[-1].inputs == {"total": "3.25"}


@given(
    restarts=st.lists(st.floats(0.5, 12.0), min_size=1, max_size=4),
    crash=st.integers(1, 9),
    loses=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=draw(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_restarts_and_retries_change_no_end(restarts: list[float], crash: int, loses: float, seed: int) -> None:
    program = Program(
        steps=FOREVER, checkpoint_every=2, metric=value, faults={1: (ScheduledFault(Fault.CRASH, crash),)}
    )
    fields: dict[str, Any] = {"stop": STOP, "checkpoints": {"store": STORE}}
    undisturbed = Simulation(spec(**fields), program).run()
    weather = Weather(latency=0.2, loses_report=loses, loses_reply=loses / 3, restarts=tuple(restarts))
    assert ends(Simulation(spec(**fields), program, weather, seed=seed).run()) == ends(undisturbed)


def test_one_that_fails_stalls_the_experiment_until_its_rule_is_removed() -> None:
    program = Program(
        steps=8, metric=lambda trial, step: 0.0, further=lambda trial, step: {"bomb": 1.0} if trial == 1 else {}
    )
    simulation = Simulation(spec(stop=STOP), program).run(60.0)
    assert simulation.api.experiment.status.state is ExperimentState.STALLED
    assert stalled(simulation) == (
        "True",
        ExperimentReason.PLUGIN_FAILED,
        "spec.stop.trial[0].plugin: 'total' failed on a result of trial 1 (RuntimeError: out of order); install a "
        "corrected version, or change or remove the rule; until then no trial starts, and running trials continue "
        "without it",
    )
    assert [reason for reason, _, _ in ends(simulation)] == [TrialReason.COMPLETED] * 2
    simulation.edit_spec(stop=Stop())
    simulation.run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert stalled(simulation)[0] == "False"
    assert len(simulation.api.trials) == 4


def test_a_running_trial_says_that_its_rule_does_not_work() -> None:
    program = Program(steps=FOREVER, metric=lambda trial, step: 0.0, further=lambda trial, step: {"bomb": 1.0})
    simulation = Simulation(spec(stop=STOP), program).run(30.0)
    assert simulation.status(0).message.endswith("; stop.trial[0].plugin has failed, so it does not stop this trial")
