"""GPUs and CPUs, dealt out in the order in which pods ask."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from podtune.local.devices import DevicePool, DeviceRequest, find_gpus, read_request


class Bench:
    def __init__(self, gpus: list[str] | None, cpus: float) -> None:
        self.pool = DevicePool(gpus, cpus)
        self.started: dict[str, Sequence[str]] = {}

    def enter(self, pod: str, gpus: int = 0, cpus: float = 0.0) -> None:
        def start(dealt: Sequence[str]) -> None:
            self.started[pod] = dealt

        self.pool.enter(pod, DeviceRequest(gpus, cpus), start)


def test_each_pod_gets_gpus_of_its_own_and_the_next_waits() -> None:
    bench = Bench(["0", "1", "2"], 8)
    for pod in ("a", "b", "c"):
        bench.enter(pod, gpus=1 if pod == "a" else 2)
    assert bench.started == {"a": ("0",), "b": ("1", "2")}
    assert bench.pool.is_waiting("c")
    bench.pool.leave("a")
    assert "c" not in bench.started
    bench.pool.leave("b")
    assert bench.started["c"] == ("0", "1")


def test_nobody_overtakes() -> None:
    bench = Bench(["0", "1"], 8)
    for pod, gpus in (("a", 1), ("b", 2), ("c", 1)):
        bench.enter(pod, gpus)
    assert list(bench.started) == ["a"]
    bench.pool.leave("b")
    assert bench.started == {"a": ("0",), "c": ("1",)}, "who waits no more holds up nobody"


def test_cpus_are_counted_and_one_pod_may_have_them_all() -> None:
    bench = Bench(None, 4.0)
    bench.enter("a", gpus=2, cpus=3.5)
    bench.enter("b", cpus=0.6)
    assert bench.started == {"a": ()}, "without GPUs, a request for some is passed over"
    bench.enter("c", cpus=64)
    bench.pool.leave("a")
    assert list(bench.started) == ["a", "b"]
    bench.pool.leave("b")
    assert list(bench.started) == ["a", "b", "c"]


def test_a_machine_says_what_it_can_never_give() -> None:
    assert not DevicePool(["0"], 4).has(DeviceRequest(2))
    assert DevicePool(["0"], 4).has(DeviceRequest(1, cpus=99))
    assert DevicePool(None, 4).has(DeviceRequest(8))


@pytest.mark.parametrize(
    ("resources", "request_"),
    [
        ({}, DeviceRequest(0, 0.0)),
        ({"limits": {"nvidia.com/gpu": 2}, "requests": {"cpu": "500m"}}, DeviceRequest(2, 0.5)),
        ({"limits": {"nvidia.com/mig-1g.5gb": 1}}, DeviceRequest(1, 0.0)),
    ],
)
def test_a_pods_request_is_that_of_its_training_container(resources: dict[str, Any], request_: DeviceRequest) -> None:
    agent = {"name": "podtune-agent", "resources": {"requests": {"cpu": "20m"}}}
    spec = {"initContainers": [agent], "containers": [{"name": "trial", "resources": resources}]}
    assert read_request(spec) == request_


def test_gpus_are_those_that_are_visible_or_those_of_nvidia_smi() -> None:
    def list_two(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(stdout="GPU 0: A100 (UUID: GPU-1)\n  MIG 1g: …\nGPU 1: A100 (UUID: GPU-2)\n")

    def fail(*_: Any, **__: Any) -> Any:
        raise subprocess.CalledProcessError(9, "nvidia-smi")

    assert find_gpus({}, list_two) == ("0", "1")
    assert find_gpus({"CUDA_VISIBLE_DEVICES": "3, GPU-7"}, list_two) == ("3", "GPU-7")
    assert find_gpus({"CUDA_VISIBLE_DEVICES": ""}, list_two) == ()
    assert find_gpus({}, fail) == ()
