"""The example in each algorithm's docstring makes that algorithm, and each of its settings is explained there."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from podtune.api.base import ApiModel
from podtune.tuning.schedulers import asha, asha_promotion, bohb, fifo, hyperband, median, pb2, pbt, pbt_synchronous
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers import bohb as bohb_search
from podtune.tuning.searchers import brute_force, cmaes, gp, grid, nsga, qmc, random, tpe
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.rejection import RejectionSearcher
from podtune.tuning.stoppers import budgets, combination, expression, metrics, plateau, time
from podtune.tuning.stoppers.base import StopCriterion
from podtune.tuning.stoppers.factory import make_experiment_stopper, make_trial_stopper
from tests.unit.tuning.manifests import experiment

SCHEDULERS = [
    fifo.Fifo,
    asha.Asha,
    asha_promotion.AshaPromotion,
    hyperband.Hyperband,
    bohb.Bohb,
    median.Median,
    pbt.Pbt,
    pbt_synchronous.SynchronousPbt,
]
SEARCHERS = [
    random.RandomSearcher,
    grid.GridSearcher,
    brute_force.BruteForceSearcher,
    qmc.QmcSearcher,
    tpe.TpeSearcher,
    bohb_search.BohbSearcher,
    cmaes.CmaEsSearcher,
    gp.GpSearcher,
    nsga.NsgaSearcher,
]
CRITERIA = [
    criterion
    for module in (budgets, combination, expression, metrics, plateau, time)
    for criterion in vars(module).values()
    if inspect.isclass(criterion) and issubclass(criterion, StopCriterion) and criterion.__module__ == module.__name__
]


def section(algorithm: type, title: str) -> str:
    """A section of a class docstring, such as its example."""
    found = re.search(rf"^{title}:\n((?:    .*\n?)+)", inspect.getdoc(algorithm) or "", re.MULTILINE)
    return textwrap.dedent(found[1]) if found else ""


def example(algorithm: type) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load(section(algorithm, "Example"))
    if "search" in fields:
        fields["search"] = {"seed": 7, **fields["search"]}
    container = {"name": "trial", "image": "example", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {"spec": {"containers": [container]}}
    return {"checkpoints": {"store": {"bucket": "models"}}, "trialTemplate": template, **fields}


@pytest.mark.parametrize("algorithm", SCHEDULERS)
def test_a_scheduler_s_example_makes_it(algorithm: type) -> None:
    assert type(make_scheduler(experiment(**example(algorithm)))) is algorithm


def test_pb2_s_example_makes_it() -> None:
    scheduler = make_scheduler(experiment(**example(pb2.Bandit)))
    assert type(vars(scheduler)["_explorer"]) is pb2.Bandit


@pytest.mark.parametrize("algorithm", SEARCHERS)
def test_a_searcher_s_example_makes_it(algorithm: type) -> None:
    fields = example(algorithm)
    searcher = make_searcher(experiment(**fields))
    made = searcher.inner if isinstance(searcher, RejectionSearcher) else searcher
    assert type(made) is algorithm


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_criterion_s_example_makes_it(criterion: type, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    original = criterion.__init__  # type: ignore[misc]

    def record(self: object, *arguments: Any) -> None:
        made.append(self)
        original(self, *arguments)

    monkeypatch.setattr(criterion, "__init__", record)
    spec = experiment(**example(criterion))
    make_trial_stopper(spec)
    make_experiment_stopper(spec)
    assert made


def settings_of(algorithm: type) -> Iterator[str]:
    """The names of an algorithm's settings, as a manifest spells them."""
    for annotation in inspect.get_annotations(algorithm.__init__, eval_str=True).values():  # type: ignore[misc]
        models = getattr(annotation, "__args__", (annotation,))
        for model in models:
            if inspect.isclass(model) and issubclass(model, ApiModel) and model.__name__.endswith("Settings"):
                yield from (field.alias or name for name, field in model.model_fields.items())


@pytest.mark.parametrize("algorithm", [*SCHEDULERS, *SEARCHERS])
def test_each_setting_is_explained(algorithm: type) -> None:
    if algorithm in (pbt.Pbt, pbt_synchronous.SynchronousPbt):
        pytest.skip("its settings are those of PBT or of PB2")
    explained = set(re.findall(r"^(\w+): ", section(algorithm, "Settings"), re.MULTILINE))
    asked = set(settings_of(algorithm))
    if algorithm is bohb_search.BohbSearcher:
        asked -= {"timeAttribute", "maxTime", "reductionFactor"}  # the scheduler's
    assert explained == asked
