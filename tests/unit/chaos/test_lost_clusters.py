"""The cluster that `make chaos` has lose an experiment loses all of it, and nothing else."""

from __future__ import annotations

from typing import Any

from e2e.chaos.api import ApiFailure
from e2e.chaos.history import Historian
from e2e.chaos.processes.restoration import lose

ROOT = "/apis/podtune.dev/v1alpha1/namespaces/chaos"
PODS = "/api/v1/namespaces/chaos/pods"


class FakeApi:
    """An API server that holds two experiments; deleting an Experiment deletes its first Trial, too."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.objects: dict[str, list[dict[str, Any]]] = {
            f"{ROOT}/experiments": [{"name": "c1", "finalizers": ["podtune.dev/cleanup"]}, {"name": "c11"}],
            f"{ROOT}/trials": [{"name": "c1-0"}, {"name": "c1-1"}, {"name": "c11-0"}],
            PODS: [{"name": "c1-0-1"}, {"name": "c11-0-1"}, {"name": "c1-snapshot-1"}],
        }

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        if method == "GET":
            return {"items": [{"metadata": metadata} for metadata in self.objects[path]]}
        self.requests.append((method, path, body))
        if path.endswith("/c1-0"):
            raise ApiFailure(404, "it went with its owner")
        return {}


async def test_all_objects_of_an_experiment_are_lost_without_a_grace_period() -> None:
    api = FakeApi()
    await lose(api, "chaos", "c1")  # type: ignore[arg-type]
    assert [path for method, path, _ in api.requests if method == "DELETE"] == [
        f"{ROOT}/experiments/c1",
        f"{ROOT}/trials/c1-0",
        f"{ROOT}/trials/c1-1",
        f"{PODS}/c1-0-1",
        f"{PODS}/c1-snapshot-1",
    ]
    assert all(body["gracePeriodSeconds"] == 0 for method, _, body in api.requests if method == "DELETE")


async def test_no_finalizer_is_waited_for() -> None:
    api = FakeApi()
    await lose(api, "chaos", "c1")  # type: ignore[arg-type]
    assert api.requests[0] == ("PATCH", f"{ROOT}/experiments/c1", {"metadata": {"finalizers": None}})


def test_an_experiment_is_found_by_its_uid_in_a_key() -> None:
    historian = Historian(None, "chaos")  # type: ignore[arg-type]
    for name, uid in (("c1", "uid-one"), ("c2", "uid-two")):
        event = {"type": "ADDED", "object": {"metadata": {"name": name, "uid": uid}}}
        historian.of(name).take("experiments", event)
    historian.of("c3")  # which nobody has seen yet
    assert historian.find_by_uid("/podtune/chaos/uid-two/_snapshot/experiment/1.json") == "c2"
    assert historian.find_by_uid("/podtune/chaos/uid-three/_snapshot/experiment/1.json") == ""
