from typing import Any

import pytest

from podtune.api.tuning.scheduler import SchedulerSpec
from podtune.client import tune
from podtune.client.errors import InvalidArgument
from podtune.client.tune.schedulers import TrialScheduler


@pytest.mark.parametrize(
    ("scheduler", "changed"),
    [
        (tune.FIFOScheduler(), {"fifo": {}}),
        (tune.ASHAScheduler(max_t=27, reduction_factor=3), {"asha": {"max_time": 27, "reduction_factor": 3}}),
        (tune.AsyncHyperBandScheduler(time_attr="epoch"), {"asha": {"time_attribute": "epoch", "max_time": 100}}),
        (tune.HyperBandScheduler(max_t=9), {"hyperband": {"max_time": 9, "reduction_factor": 3}}),
        (tune.MedianStoppingRule(hard_stop=False), {"median": {"grace_period": 60, "soft_stop": True}}),
        (
            tune.PopulationBasedTraining(
                perturbation_interval=5, hyperparam_mutations={"lr": tune.uniform(0, 1), "size": [1, 2]}
            ),
            {"pbt": {"interval": 5, "quantile": 0.25, "time_attribute": "time_total_s"}},
        ),
    ],
)
def test_scheduler_is_one_of_the_manifests(scheduler: TrialScheduler, changed: dict[str, Any]) -> None:
    read = SchedulerSpec.model_validate(scheduler.describe())
    [(name, settings)] = changed.items()
    assert read.name == name
    assert settings.items() <= read.settings.model_dump().items()


def test_mutations_have_bounds_of_their_own() -> None:
    scheduler = tune.PopulationBasedTraining(hyperparam_mutations={"lr": tune.uniform(0, 1), "size": [1, 2]})
    assert scheduler.describe()["pbt"]["mutations"] == [
        {"name": "lr", "float": {"min": 0, "max": 1}},
        {"name": "size", "choice": {"values": [1, 2]}},
    ]


@pytest.mark.parametrize("mutation", [lambda: 1, 0.5, tune.randn()])
def test_mutation_without_bounds_is_refused(mutation: Any) -> None:
    scheduler = tune.PopulationBasedTraining(hyperparam_mutations={"lr": mutation})
    with pytest.raises(InvalidArgument, match=r"hyperparam_mutations\['lr'\]: .*give a list of values, or a domain"):
        scheduler.describe()
