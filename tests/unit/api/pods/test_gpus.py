from __future__ import annotations

from typing import Any

import pytest

from podtune.api.pods.gpus import count_requested_gpus, leave_out_gpus


def pod(*limits: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": f"c{i}", "resources": {"limits": limit}} for i, limit in enumerate(limits)]}


@pytest.mark.parametrize(
    ("limits", "gpus"),
    [
        ({}, 0),
        ({"cpu": 4, "memory": "8Gi"}, 0),
        ({"nvidia.com/gpu": 2}, 2),
        ({"nvidia.com/gpu": "2"}, 2),
        ({"nvidia.com/gpu.shared": 1}, 1),
        ({"amd.com/gpu": 4}, 4),
        ({"gpu.intel.com/i915": 1}, 1),
        ({"nvidia.com/mig-2g.10gb": 1}, 2 / 7),
        ({"nvidia.com/mig-1g.5gb": 7}, 1),
        ({"nvidia.com/mig-1g.10gb.me": 1}, 1 / 7),
        ({"nvidia.com/gpumem": 3000, "nvidia.com/gpu": 1}, 1),
        ({"nvidia.com/gpu": "many"}, 0),
        ({"nvidia.com/gpu": None}, 0),
    ],
)
def test_a_pods_gpus(limits: dict[str, Any], gpus: float) -> None:
    assert count_requested_gpus(pod(limits)) == pytest.approx(gpus)


def test_containers_and_sidecars_are_added_up() -> None:
    spec = pod({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 2})
    spec["initContainers"] = [{"name": "s", "resources": {"limits": {"nvidia.com/gpu": 1}}}, {"name": "t"}]
    assert count_requested_gpus(spec) == 4


@pytest.mark.parametrize("spec", [{}, {"containers": None}, {"containers": [{"resources": {"limits": []}}]}])
def test_a_pod_that_asks_for_nothing_holds_none(spec: dict[str, Any]) -> None:
    assert count_requested_gpus(spec) == 0


def test_gpus_are_left_out_and_nothing_else() -> None:
    spec = pod({"cpu": 4, "nvidia.com/gpu": 1}, {"nvidia.com/mig-1g.5gb": 2})
    spec["initContainers"] = [{"name": "s", "resources": {"requests": {"amd.com/gpu": 1, "memory": "8Gi"}}}]
    spec["containers"].append({"name": "asks for nothing", "resources": {"limits": None}})
    leave_out_gpus(spec)
    assert spec["initContainers"][0]["resources"] == {"requests": {"memory": "8Gi"}}
    assert [container["resources"]["limits"] for container in spec["containers"]] == [{"cpu": 4}, {}, None]
