"""The agent makes a copy of podtune.trial where a template asks for it, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from docs.fenced_blocks import DOCS, find_blocks
from podtune.client.packing.packed import PackedFunction
from tests.unit.cluster.pods.test_manifest import container, manifest

HOOK = {"postStart": {"exec": {"command": ["podtune-agent", "copy-module", "/podtune"]}}}


def of_env(value: str) -> dict[str, Any]:
    return {"env": [{"name": "PYTHONPATH", "value": value}]}


def make_agent(**template: Any) -> dict[str, Any]:
    return container(manifest(template), "podtune-agent")


@pytest.mark.parametrize(
    "fields",
    [
        of_env("/podtune/site-packages"),
        of_env("/app:/podtune/site-packages"),
        of_env("$(PODTUNE_DIR)/site-packages/"),
        {"command": ["sh", "-c", "PYTHONPATH=$PYTHONPATH:/podtune/site-packages exec python train.py"]},
        {"args": ["sh", "-c", "PYTHONPATH=${PODTUNE_DIR}/site-packages:$PYTHONPATH python train.py"]},
        {"args": ["sh", "-c", "PYTHONPATH=$PODTUNE_DIR/site-packages python train.py"]},
    ],
)
def test_a_template_asks_by_naming_the_directory(fields: dict[str, Any]) -> None:
    named = {"name": "main", "image": "i", **fields}
    assert make_agent(containers=[named])["lifecycle"] == HOOK
    plain = {"name": "main", "image": "i"}
    assert make_agent(containers=[plain], initContainers=[{**named, "name": "prepare"}])["lifecycle"] == HOOK


@pytest.mark.parametrize(
    "fields",
    [
        {},
        of_env("/opt/podtune/site-packages"),
        of_env("/podtune/site-packages-of-mine"),
        of_env("/app/site-packages"),
        {"args": ["--cache=$(PODTUNE_DIR)/cache", "--lr=$(PODTUNE_PARAM_lr)"]},
    ],
)
def test_other_pods_are_as_they_were(fields: dict[str, Any]) -> None:
    assert "lifecycle" not in make_agent(containers=[{"name": "main", "image": "i", **fields}])


def test_a_function_gets_it_whatever_its_image_has() -> None:
    packed = PackedFunction("train", {"podtune_runner.py": ""})
    main = {"name": "main", "image": "i", "command": packed.command, "volumeMounts": [packed.make_mount()]}
    assert make_agent(containers=[main], volumes=[packed.make_volume("train-1")])["lifecycle"] == HOOK


def test_the_variable_is_the_templates_own() -> None:
    pod = manifest({"containers": [{"name": "main", "image": "i", **of_env("/app:/podtune/site-packages")}]})
    paths = [entry for entry in container(pod, "main")["env"] if entry["name"] == "PYTHONPATH"]
    assert paths == [{"name": "PYTHONPATH", "value": "/app:/podtune/site-packages"}]
    assert not any(entry["name"] == "PYTHONPATH" for entry in container(manifest(), "main")["env"])


def test_the_templates_of_the_page_ask_for_it() -> None:
    texts = [block.text for block in find_blocks(DOCS / "how-to/prepare-an-image.md") if block.language == "yaml"]
    asking = [yaml.safe_load(text)["trialTemplate"]["spec"] for text in texts if "site-packages" in text]
    assert [make_agent(**template).get("lifecycle") for template in asking] == [HOOK, HOOK]
