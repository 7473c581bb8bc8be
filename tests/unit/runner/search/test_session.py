"""What a searcher is told and asked in the name of an experiment."""

from __future__ import annotations

from typing import Any

from podtune.api.resources.trial import ProposalSource
from podtune.runner.actions import Propose
from podtune.runner.search.origins import Origin
from podtune.runner.search.session import SearcherSession
from podtune.tuning.searchers.base import Configuration, Observation
from tests.unit.tuning.manifests import experiment

SPACE = [{"name": "units", "int": {"min": 1, "max": 4}}]


def answer(observations: list[Observation], **search: Any) -> list[Configuration]:
    spec = experiment(parameters=SPACE, search={"algorithm": "grid", "maxTrials": 99, **search})
    origins = tuple(Origin(ProposalSource.SEARCHER, number) for number in range(4))
    request = Propose(
        first=0, count=4, observations=observations, observed=len(observations), pending=(), origins=origins
    )
    return [proposal.configuration for proposal in SearcherSession(spec).answer(request)]


def test_an_experiment_learnt_from_is_left_out_of_a_grid() -> None:
    assert answer([Observation(-1, {"units": 2}, 0.5, 1)]) == [{"units": 1}, {"units": 3}, {"units": 4}]


def test_known_results_are_left_out_too() -> None:
    initial = [{"parameters": {"units": 3}, "results": {"accuracy": 0.5}}]
    prior = [Observation(-1, {"units": 2}, 0.5, 1)]
    assert answer(prior, initial=initial) == [{"units": 1}, {"units": 4}]
