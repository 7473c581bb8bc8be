"""The kubelet that `make chaos` plays: of two pods of one name, the newer one is meant."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from e2e.chaos.ground_truth import AttemptTruth
from e2e.chaos.pods.kubelet import Kubelet
from e2e.chaos.pods.pod_status import AGENT
from e2e.chaos.pods.training_pod import SimulatedPod


def add_pod(kubelet: Kubelet, uid: str, said: str) -> None:
    pod = SimulatedPod.__new__(SimulatedPod)
    pod.name, pod.agent = "c1-0-2", cast(Any, SimpleNamespace(log=[said]))
    pod.truth = AttemptTruth("c1-0", 2, uid, printed=[f"1 {said}"])
    kubelet._pods[uid] = pod


async def test_a_log_is_that_of_the_newest_pod_of_its_name() -> None:
    kubelet = Kubelet(cast(Any, None), "chaos", lambda _: None, cast(Any, None))
    add_pod(kubelet, "lost", "from the pod that was lost")
    add_pod(kubelet, "made-again", "from the one that was made again")
    try:
        assert [line.partition(" ")[2] for line in kubelet.read_log("c1-0-2", AGENT)] == [
            "from the one that was made again"
        ]
        assert kubelet.read_log("c1-0-2", "trial") == ["1 from the one that was made again"]
        assert kubelet.read_log("c1-0-3", "trial") == []
    finally:
        await kubelet.close()
