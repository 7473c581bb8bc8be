from datetime import timedelta
from typing import Any

import pytest

from podtune.client import tune
from podtune.client.errors import InvalidArgument
from podtune.client.tune.configs import describe_run

SPACE = {"lr": tune.uniform(0, 1)}
GRID = {"a": tune.grid_search([1, 2, 3])}


def configure(**settings: Any) -> tune.TuneConfig:
    return tune.TuneConfig(**{"metric": "accuracy", "mode": "max", **settings})


@pytest.mark.parametrize(
    ("settings", "space", "search"),
    [
        ({}, SPACE, {"maxTrials": 1, "seed": 0}),
        ({"num_samples": 20, "search_alg": "random"}, SPACE, {"algorithm": "random", "maxTrials": 20, "seed": 0}),
        ({"search_alg": {"algorithm": "tpe", "seed": 7}}, SPACE, {"algorithm": "tpe", "maxTrials": 1, "seed": 7}),
        ({"num_samples": -1, "time_budget_s": 60}, SPACE, {"maxTrials": "unlimited", "seed": 0}),
        ({"num_samples": 2}, GRID, {"algorithm": "grid", "maxTrials": 6, "repeats": 2, "seed": 0}),
        (
            {"num_samples": 2},
            {**GRID, **SPACE},
            {"algorithm": "grid", "grid": {"parameters": ["a"]}, "maxTrials": 6, "seed": 0},
        ),
        (
            {"num_samples": -1, "time_budget_s": 60},
            {**GRID, **SPACE},
            {"algorithm": "grid", "grid": {"parameters": ["a"]}, "maxTrials": "unlimited", "seed": 0},
        ),
    ],
)
def test_search_is_as_the_manifest_has_it(settings: Any, space: Any, search: Any) -> None:
    assert configure(**settings).describe_search(space) == search


@pytest.mark.parametrize(
    ("settings", "space", "message"),
    [
        ({"num_samples": -1}, SPACE, "num_samples: -1 never ends by itself; set time_budget_s"),
        ({"num_samples": 1.5}, SPACE, "num_samples: 1.5 is no number of trials"),
        ({"search_alg": "tpe"}, GRID, "search_alg='tpe' can't be combined with grid_search; write choice"),
        ({"num_samples": -1, "time_budget_s": 9}, GRID, "num_samples=-1 can't be combined with grid_search alone"),
    ],
)
def test_search_that_makes_no_sense_is_refused(settings: Any, space: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        configure(**settings).describe_search(space)


def test_scheduler_of_another_package_is_refused() -> None:
    assert configure(scheduler={"fifo": {}}).describe_scheduler() == {"fifo": {}}
    with pytest.raises(InvalidArgument, match=r"scheduler: 'asha' is no scheduler of Podtune; write tune\.ASHASchedu"):
        configure(scheduler="asha").describe_scheduler()


def test_run_says_when_to_stop_and_what_to_keep() -> None:
    run = tune.RunConfig(
        image="i",
        stop={"epoch": 3},
        failure_config=tune.FailureConfig(max_failures=-1),
        checkpoint_config=tune.CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="accuracy"),
    )
    assert describe_run(configure(time_budget_s=timedelta(minutes=1.5)), run) == {
        "stop": {"metrics": {"epoch": 3}, "totalTime": "90s"},
        "failures": {"maxFailures": 1000, "failFast": False},
        "checkpoints": {"keep": {"count": 1, "by": "best"}},
    }
    assert describe_run(configure(), tune.RunConfig(image="i")) == {}


def test_stop_takes_no_function() -> None:
    with pytest.raises(InvalidArgument, match=r"stop: .* is no dict of metrics and values.*stop-when-enough"):
        describe_run(configure(), tune.RunConfig(image="i", stop=lambda trial, result: True))  # type: ignore[arg-type]


def test_checkpoints_are_ranked_by_the_objective_alone() -> None:
    run = tune.RunConfig(image="i", checkpoint_config=tune.CheckpointConfig(checkpoint_score_attribute="loss"))
    with pytest.raises(InvalidArgument, match="checkpoint_score_attribute: 'loss' is not the objective; name 'accur"):
        describe_run(configure(), run)


def test_store_is_an_address_or_as_the_manifest_has_it() -> None:
    assert tune.RunConfig(image="i", storage_path="s3://bucket/team/run/").describe_store() == {
        "bucket": "bucket",
        "prefix": "team/run",
    }
    assert tune.RunConfig(image="i", storage_path={"volume": {}}).describe_store() == {"volume": {}}
    with pytest.raises(InvalidArgument, match=r"storage_path: '/tmp/results' is not the address of an S3 bucket"):
        tune.RunConfig(image="i", storage_path="/tmp/results").describe_store()
