"""Whatever happens to the operator, each proposal comes of what its Trial says that it came of."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from podtune.api.names import ExperimentState
from podtune.api.tuning.search_space import parse_value
from podtune.runner.actions import CreateTrial
from podtune.runner.records import Trial
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial
from podtune.tuning.searchers.factory import make_searcher
from tests.unit.runner.scenarios.test_properties import ASHA, PATIENT, faults, weathers
from tests.unit.runner.world.examples import draw
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather, spec
from tests.unit.runner.world.weather import seeds

TRIALS = 9
PARAMETERS: list[dict[str, Any]] = [
    {"name": "rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "units", "int": {"min": 1, "max": 64}},
]
SEARCHES: dict[str, dict[str, Any]] = {
    "random": {"algorithm": "random"},
    "tpe": {"algorithm": "tpe", "tpe": {"startupTrials": 2}},
    "repeated": {"algorithm": "tpe", "tpe": {"startupTrials": 1}, "repeats": 3},
}
bounded = settings(max_examples=draw(60), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def start(search: dict[str, Any], weather: Weather, program: Program, seed: int, **fields: Any) -> Simulation:
    fields = {
        "parameters": PARAMETERS,
        "search": {"maxTrials": TRIALS, "seed": 7, **search},
        "maxConcurrentTrials": 3,
        "failures": {"backoff": {"initial": "1s", "max": "4s"}, "maxFailures": 3, "maxDisruptions": 8},
        **fields,
    }
    return Simulation(spec(**fields), program, weather, seed=seed, settings=PATIENT)


@bounded
@given(st.sampled_from(["tpe", "repeated"]), weathers, faults, seeds, st.sampled_from([{}, ASHA]))
def test_every_proposal_can_be_made_again_from_what_the_trials_record(
    search: str, weather: Weather, faults: Any, seed: int, scheduler: dict[str, Any]
) -> None:
    program = Program(steps=5, faults=faults)
    simulation = start(SEARCHES[search], weather, program, seed, scheduler=scheduler).run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert len(simulation.api.trials) == TRIALS
    for trial in simulation.api.trials.values():
        assert asked_again(simulation, trial) == configuration(simulation, trial), trial.name


@bounded
@given(
    search=st.sampled_from(list(SEARCHES)),
    seed=seeds,
    moment=st.floats(0.0, 25.0),
    trouble=st.sampled_from([0.0, 1.0, 20.0]),
    refused=st.integers(1, 3),
    latency=st.sampled_from([0.0, 0.2, 1.0]),
)
def test_what_had_been_proposed_when_the_operator_died_comes_out_the_same(
    search: str, seed: int, moment: float, *, trouble: float, refused: int, latency: float
) -> None:
    """Though some of it had been made ahead, could not be made a Trial for a while, and results came meanwhile."""
    simulation = start(SEARCHES[search], Weather(latency=latency, watch_delay=latency), Program(steps=5), seed)
    simulation.run(moment)
    simulation.fail(CreateTrial, when=lambda action: action.spec.index % refused == 0)
    simulation.run(trouble)
    simulation.refuse = lambda action: None
    proposed = {number: proposal.configuration for number, proposal in simulation.proposed.items()}
    simulation.restart()
    simulation.run()
    assert len(simulation.api.trials) == TRIALS
    for trial in simulation.api.trials.values():
        expected = proposed.get(trial.spec.proposal.number)
        assert expected in (None, configuration(simulation, trial)), trial.name


def asked_again(simulation: Simulation, trial: Trial) -> Configuration:
    """What a fresh searcher proposes that is told and shown what the Trial says the first one was."""
    spec, proposal = simulation.api.experiment.spec, trial.spec.proposal
    assert spec is not None
    searcher = make_searcher(spec)
    for observation in observations(simulation, proposal.observed_seq):
        searcher.tell(observation)
    by_number = {number_of(other): other for other in simulation.api.trials.values()}
    running = [by_number[number] for number in numbers(proposal.running)]
    shown = [PendingTrial(number_of(other), configuration(simulation, other)) for other in running]
    proposed = searcher.ask(proposal.number, shown)
    return proposed.configuration


def observations(simulation: Simulation, end: int) -> list[Observation]:
    """What the Trials say of the order of tells, up to a place in it."""
    repeats: dict[int, list[Trial]] = {}
    for trial in simulation.api.trials.values():
        repeats.setdefault(number_of(trial), []).append(trial)
    told = []
    for number, trials in repeats.items():
        place = max(end if trial.status.observation_seq is None else trial.status.observation_seq for trial in trials)
        values = [float(t.status.last_result["accuracy"]) for t in trials if t.status.state == "TERMINATED"]
        mean = sum(values) / len(values) if values else None
        steps = min(trial.status.iteration for trial in trials)
        told.append((place, Observation(number, configuration(simulation, trials[0]), mean, steps)))
    return [observation for place, observation in sorted(told, key=lambda pair: pair[0]) if place < end]


def configuration(simulation: Simulation, trial: Trial) -> Configuration:
    spec = simulation.api.experiment.spec
    return {p.name: parse_value(p, trial.spec.parameters[p.name]) for p in spec.parameters}


def number_of(trial: Trial) -> int:
    return trial.spec.proposal.number


def numbers(ranges: str) -> list[int]:
    """Reads 3,7-12."""
    pairs = [part.partition("-") for part in ranges.split(",") if part]
    return [number for first, _, last in pairs for number in range(int(first), int(last or first) + 1)]
