from __future__ import annotations

from typing import Any

import pytest

from podtune.api.tuning.compatibility import SEARCHERS
from podtune.testing.searchers import propose
from podtune.tuning.schedulers.asha import Asha
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.schedulers.fifo import Fifo
from podtune.tuning.searchers.base import Searcher
from podtune.tuning.searchers.brute_force import BruteForceSearcher
from podtune.tuning.searchers.cmaes import CmaEsSearcher
from podtune.tuning.searchers.factory import learns_from_rungs, make_searcher
from podtune.tuning.searchers.grid import GridSearcher
from podtune.tuning.searchers.nsga import NsgaSearcher
from podtune.tuning.searchers.qmc import QmcSearcher
from podtune.tuning.searchers.random import RandomSearcher
from podtune.tuning.searchers.rejection import RejectionSearcher
from podtune.tuning.searchers.sequences.sequence_searcher import SequenceSearcher
from podtune.tuning.searchers.tpe import TpeSearcher
from tests.unit.tuning.manifests import experiment

UNIT = [{"name": "x", "float": {"min": 0, "max": 1}}]


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    [
        ("random", RandomSearcher),
        ("grid", GridSearcher),
        ("qmc", QmcSearcher),
        ("tpe", TpeSearcher),
        ("cmaes", CmaEsSearcher),
        ("nsga2", NsgaSearcher),
        ("nsga3", NsgaSearcher),
    ],
)
def test_the_search_algorithm_that_is_asked_for(algorithm: str, kind: type[Searcher]) -> None:
    searcher = make_searcher(experiment(search={"algorithm": algorithm, "maxTrials": 5}))
    assert type(searcher.inner if isinstance(searcher, RejectionSearcher) else searcher) is kind


@pytest.mark.parametrize("algorithm", sorted(SEARCHERS - {"plugin"}))
def test_who_learns_from_rungs_is_known_without_making_it(algorithm: str) -> None:
    scheduler = {"bohb": {"maxTime": 9}} if algorithm == "bohb" else {"asha": {"maxTime": 9}}
    search, store = {"algorithm": algorithm, "maxTrials": 5}, {"store": {"bucket": "bucket"}}
    spec = experiment(parameters=FINITE, search=search, scheduler=scheduler, checkpoints=store)
    assert learns_from_rungs(spec) is make_searcher(spec).learns_from_rungs is (algorithm == "bohb")


FINITE = [{"name": "x", "int": {"min": 1, "max": 9}}, {"name": "y", "choice": {"values": ["a", "b"]}}]


@pytest.mark.parametrize(("algorithm", "kind"), [("bruteForce", BruteForceSearcher), ("random", SequenceSearcher)])
def test_a_finite_space_is_gone_through(algorithm: str, kind: type[Searcher]) -> None:
    searcher = make_searcher(experiment(parameters=FINITE, search={"algorithm": algorithm, "maxTrials": 5}))
    assert type(searcher) is kind
    assert len({tuple(propose(searcher, number).values()) for number in range(18)}) == 18
    assert searcher.ask(18, []) is None


def test_settings_of_sequences_count() -> None:
    def walk(**search: Any) -> list[dict[str, Any]]:
        searcher = make_searcher(experiment(parameters=FINITE, search={"maxTrials": 5, **search}))
        return [propose(searcher, number) for number in range(6)]

    sobol = walk(algorithm="qmc")
    assert sobol == walk(algorithm="qmc", qmc={"sequence": "sobol", "scramble": True})
    assert sobol != walk(algorithm="qmc", qmc={"sequence": "halton"})
    assert walk(algorithm="qmc", qmc={"scramble": False})[0] == {"x": 1, "y": "a"}
    assert walk(algorithm="bruteForce", bruteForce={"order": "systematic"}) == walk(algorithm="grid")
    assert walk(algorithm="bruteForce") != walk(algorithm="grid")


def test_the_manifests_seed_and_settings_count() -> None:
    def first(search: dict[str, Any]) -> Any:
        return propose(make_searcher(experiment(parameters=UNIT, search={"maxTrials": 5, **search})), 1)

    assert first({"algorithm": "random", "seed": 1}) == first({"algorithm": "random", "seed": 1})
    assert first({"algorithm": "random", "seed": 1}) != first({"algorithm": "random", "seed": 2})
    assert first({"algorithm": "tpe", "seed": 1}) != first({"algorithm": "tpe", "seed": 2})
    assert first({"algorithm": "grid"}) == {"x": 0.25}
    assert first({"algorithm": "grid", "grid": {"points": 11}}) == {"x": 0.1}


@pytest.mark.parametrize(
    ("scheduler", "kind"),
    [({}, Fifo), ({"fifo": {}}, Fifo), ({"asha": {"timeAttribute": "epoch", "maxTime": 9}}, Asha)],
)
def test_the_scheduler_that_is_asked_for(scheduler: dict[str, Any], kind: type[Scheduler]) -> None:
    assert type(make_scheduler(experiment(scheduler=scheduler))) is kind


def test_asha_compares_by_the_manifests_objective_and_time() -> None:
    scheduler = make_scheduler(
        experiment(
            objective={"metric": "loss", "mode": "min"},
            scheduler={"asha": {"timeAttribute": "epoch", "maxTime": 9, "reductionFactor": 3}},
        )
    )
    for trial, loss in enumerate([0.1, 0.2, 0.3]):
        scheduler.on_trial_add(trial, {})
        scheduler.on_result(trial, {"epoch": 1, "loss": loss})
    assert scheduler.time_attribute == "epoch"
    assert scheduler.record(2) == {"rungs": {"1": "0.3"}}
