from __future__ import annotations

import re
from typing import Any

import pytest

from podtune.api.tuning.scheduler import AshaPromotionSettings, HyperbandSettings, SchedulerSpec
from podtune.tuning.schedulers.asha_promotion import AshaPromotion
from podtune.tuning.schedulers.bohb import Bohb
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.schedulers.hyperband import Hyperband
from tests.unit.tuning.manifests import experiment

STORE = {"store": {"bucket": "podtune"}}


@pytest.mark.parametrize(
    ("name", "algorithm", "made"),
    [("ashaPromotion", "random", AshaPromotion), ("hyperband", "tpe", Hyperband), ("bohb", "bohb", Bohb)],
)
def test_each_key_makes_its_scheduler(name: str, algorithm: str, made: type) -> None:
    search = {"algorithm": algorithm, "maxTrials": 24}
    spec = experiment(scheduler={name: {"maxTime": 27}}, checkpoints=STORE, search=search)
    assert type(make_scheduler(spec)) is made


@pytest.mark.parametrize(("name", "algorithm"), [("ashaPromotion", "random"), ("hyperband", "tpe"), ("bohb", "bohb")])
def test_what_pauses_trials_needs_a_store(name: str, algorithm: str) -> None:
    with pytest.raises(ValueError, match=rf"checkpoints.store: is missing, but scheduler {name} resumes trials"):
        experiment(scheduler={name: {"maxTime": 27}}, search={"algorithm": algorithm, "maxTrials": 24})


@pytest.mark.parametrize(
    ("grace_period", "max_time", "factor", "levels"),
    [(1, 27, 3, (1, 3, 9)), (1, 28, 3, (1, 3, 9, 27)), (2, 3, 100, (2,)), (5, 81, 4, (5, 20, 80))],
)
def test_rungs_are_below_max_time(grace_period: int, max_time: int, factor: int, levels: tuple[int, ...]) -> None:
    settings = AshaPromotionSettings(grace_period=grace_period, max_time=max_time, reduction_factor=factor)
    assert settings.levels == levels
    assert settings.most_rungs == len(levels)


@pytest.mark.parametrize(("max_time", "factor", "most"), [(81, 3, 4), (729, 3, 5), (3, 3, 1), (10, 10, 1), (8, 4, 1)])
def test_a_trial_passes_as_many_rungs_as_the_largest_bracket_has_halvings(
    max_time: int, factor: int, most: int
) -> None:
    """Of 729, the bracket that would begin at 1 is left out: 729 * 3**-6 comes out below it."""
    assert HyperbandSettings(max_time=max_time, reduction_factor=factor).most_rungs == most


def resources(*entries: tuple[int, dict[str, Any]], scheduler: str = "hyperband") -> SchedulerSpec:
    return SchedulerSpec.model_validate(
        {
            scheduler: {"maxTime": 81},
            "resources": [{"atRung": rung, "limits": limits} for rung, limits in entries],
        }
    )


class TestResources:
    def test_quantities_are_texts_whatever_yaml_makes_of_them(self) -> None:
        given = resources(
            (1, {"nvidia.com/gpu": 2, "memory": "16Gi"}), (2, {"nvidia.com/mig-3g.20gb": "1", "cpu": "1.5"})
        )
        assert [entry.limits for entry in given.resources] == [
            {"nvidia.com/gpu": "2", "memory": "16Gi"},
            {"nvidia.com/mig-3g.20gb": "1", "cpu": "1.5"},
        ]

    @pytest.mark.parametrize("scheduler", ["ashaPromotion", "hyperband", "bohb"])
    def test_they_go_with_what_resumes_trials(self, scheduler: str) -> None:
        assert resources((1, {"cpu": 4}), scheduler=scheduler).resources

    @pytest.mark.parametrize("name", ["nvidia gpu", "GPU", "nvidia.com/", "/gpu", "nvidia.com/mig 3g", "n" * 254])
    def test_a_name_that_no_resource_has_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match=r"is not a valid resource name|at most 253"):
            resources((1, {name: 1}))

    @pytest.mark.parametrize("quantity", [-1, True, "four", "", "1 Gi", "0x4", None, [], 1.5, "9" * 33])
    def test_what_is_no_quantity_is_refused(self, quantity: Any) -> None:
        with pytest.raises(ValueError, match="is not a quantity; write it like 4, 500m or 16Gi"):
            resources((1, {"nvidia.com/gpu": quantity}))

    @pytest.mark.parametrize(
        ("entries", "message"),
        [
            (((2, {"cpu": 1}), (1, {"cpu": 2})), "resources: atRung goes 2, 1; put the entries in order"),
            (((1, {"cpu": 1}), (1, {"cpu": 2})), "resources: atRung 1 is listed twice"),
            (((1, {"cpu": 1}), (5, {"cpu": 2})), "resources[1].atRung: atRung 5 is never reached"),
            (((0, {"cpu": 1}),), "greater than or equal to 1"),
            (((1, {}),), "at least 1 item"),
        ],
    )
    def test_entries_that_can_never_work_are_refused(self, entries: Any, message: str) -> None:
        with pytest.raises(ValueError, match=re.escape(message)):
            resources(*entries)
