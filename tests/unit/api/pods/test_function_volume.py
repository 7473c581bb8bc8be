"""Which ConfigMap a pod's function travels in."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.pods.function_volume import FunctionVolume, find_function
from podtune.client.packing.function import pack_function
from tests.unit.client.packing import travelling, travelling_helpers

PACKED = pack_function(travelling.train, modules=[travelling_helpers])
VOLUME, MOUNT = PACKED.make_volume("train-1"), PACKED.make_mount()


def pod(volume: Any, *mounts: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trial", "volumeMounts": list(mounts)}], "volumes": [volume]}


def test_what_the_client_has_packed_is_found_with_its_keys() -> None:
    found = find_function(pod(VOLUME, MOUNT))
    assert found is not None
    data = PACKED.make_config_map("train-1")["data"]
    assert (found.config_map, {path: data[key] for path, key in found.keys.items()}) == ("train-1", PACKED.files)


@pytest.mark.parametrize(
    "template",
    [
        {},
        {"containers": [{"name": "trial"}]},
        pod(VOLUME),
        pod(VOLUME, {**MOUNT, "mountPath": "/data"}),
        pod({"name": "function", "emptyDir": {}}, MOUNT),
        pod({"name": "function", "configMap": {"name": "whole"}}, MOUNT),
        pod({**VOLUME, "name": "other"}, {**MOUNT, "name": "other"}),
    ],
)
def test_a_volume_of_ones_own_is_none(template: dict[str, Any]) -> None:
    assert find_function(template) is None


@pytest.mark.parametrize("item", [None, 3, {}, {"key": "a"}, {"path": 1, "key": "a"}])
def test_items_that_the_api_server_refuses_are_no_files(item: object) -> None:
    volume = {"name": "function", "configMap": {"name": "train-1", "items": [item]}}
    assert find_function(pod(volume, MOUNT, None)) == FunctionVolume("train-1", {})
