"""A searcher of another package that hears every result: in an order that restarts repeat, with the same proposals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.names import ExperimentState
from podtune.api.resources.trial import MAX_RESULT_OBSERVATIONS
from podtune.api.tuning.search_space import Parameter
from podtune.runner.actions import Propose
from podtune.runner.records import Trial
from podtune.tuning.randomness import derive_seed
from podtune.tuning.searchers.base import Configuration, Observation, PendingTrial, Proposal
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.random import RandomSearcher
from tests.entry_points import make_installation
from tests.unit.runner.scenarios.search import test_search_properties as properties
from tests.unit.runner.scenarios.test_properties import ASHA, faults, weathers
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation, Weather
from tests.unit.runner.world.weather import seeds

SEARCH: dict[str, Any] = {"algorithm": "plugin", "plugin": {"name": "listener"}}


class Listener(RandomSearcher):
    """Whatever it hears, and in which order, changes what it proposes."""

    learns_from_results = True

    def __init__(self, parameters: Sequence[Parameter], seed: int, **_: Any) -> None:
        super().__init__(parameters, seed)
        self._parameters = parameters
        self._heard = 0

    @override
    def tell(self, observation: Observation) -> None:
        known = (observation.number, observation.step, observation.value, observation.final)
        self._heard = derive_seed(self._heard, repr((*known, sorted(observation.configuration.items()))))

    @override
    def ask(self, number: int, pending: Sequence[PendingTrial], attempt: int = 0) -> Proposal | None:
        return RandomSearcher(self._parameters, self._heard).ask(number, pending, attempt)


installed = make_installation(EntryPoint("listener", f"{__name__}:Listener", "podtune.searchers"))


def test_it_hears_each_result_and_then_the_end_in_the_order_that_trials_record() -> None:
    program = Program(steps=3, metric=lambda trial, step: trial + step / 10)
    search = {**SEARCH, "maxTrials": 2}
    simulation = properties.start(search, Weather(), program, 0, maxConcurrentTrials=1)
    simulation.run(until=lambda: len(simulation.api.trials) == 2)
    simulation.restart()
    simulation.run()
    written = [(entry.seq, entry.step, entry.value) for entry in simulation.status(0).rung_observations]
    assert written == [(0, 1, "0.1"), (1, 2, "0.2"), (2, 3, "0.3")]
    assert simulation.status(0).observation_seq == 3
    heard = simulation.actions(Propose)[-1].observations[:4]
    told = [(observation.number, observation.step, observation.value, observation.final) for observation in heard]
    assert told == [(0, 1, 0.1, False), (0, 2, 0.2, False), (0, 3, 0.3, False), (0, 3, 0.3, True)]


def test_of_a_long_trial_it_hears_the_first_results_and_the_end() -> None:
    program = Program(steps=MAX_RESULT_OBSERVATIONS + 20, seconds=0.2)
    simulation = properties.start({**SEARCH, "maxTrials": 1}, Weather(), program, 0).run()
    steps = [entry.step for entry in simulation.status(0).rung_observations]
    assert steps == list(range(1, MAX_RESULT_OBSERVATIONS + 1))


@properties.bounded
@given(weathers, faults, seeds, st.sampled_from([{}, ASHA]), st.sampled_from([1, 2]))
def test_every_proposal_can_be_made_again_from_what_the_trials_record(
    weather: Weather, faults: Any, seed: int, scheduler: dict[str, Any], repeats: int
) -> None:
    search = {**SEARCH, "repeats": repeats, "maxTrials": 8}
    program = Program(steps=5, faults=faults)
    simulation = properties.start(search, weather, program, seed, scheduler=scheduler).run()
    assert simulation.api.experiment.status.state is ExperimentState.COMPLETE
    assert len(simulation.api.trials) == 8
    for trial in simulation.api.trials.values():
        assert propose_again(simulation, trial) == properties.configuration(simulation, trial), trial.name


def propose_again(simulation: Simulation, trial: Trial) -> Configuration:
    """What a fresh searcher proposes that is told what the Trials say the first one was."""
    spec, proposal = simulation.api.experiment.spec, trial.spec.proposal
    assert spec is not None
    assert proposal is not None
    searcher = make_searcher(spec)
    for _, observation in sorted(list_told(simulation, proposal.observed_seq), key=lambda pair: pair[0]):
        searcher.tell(observation)
    proposed = searcher.ask(proposal.number, [])
    assert proposed is not None
    return proposed.configuration


def list_told(simulation: Simulation, end: int) -> list[tuple[int, Observation]]:
    """What the Trials record of results and ends below a sequence number."""
    told: list[tuple[int, Observation]] = []
    ended: dict[int, list[tuple[int, Trial]]] = {}
    for trial in simulation.api.trials.values():
        number, configuration = properties.number_of(trial), properties.configuration(simulation, trial)
        told += [
            (entry.seq, Observation(number, configuration, float(entry.value), entry.step, final=False))
            for entry in trial.status.rung_observations
        ]
        seq = trial.status.observation_seq
        ended.setdefault(number, []).append((end if seq is None else seq, trial))
    for number, pairs in ended.items():
        trials = [trial for _, trial in sorted(pairs, key=lambda pair: pair[1].spec.index)]
        values = [float(trial.status.last_result["accuracy"]) for trial in trials if trial.status.state == "TERMINATED"]
        mean = sum(values) / len(values) if values else None
        last = Observation(number, properties.configuration(simulation, trials[0]), mean, 0)
        steps = [trial.status.iteration for trial in trials if trial.status.state == "TERMINATED"]
        steps = steps or [trials[0].status.iteration]
        told.append((max(seq for seq, _ in pairs), replace(last, step=min(steps))))
    return [(seq, observation) for seq, observation in told if seq < end]
