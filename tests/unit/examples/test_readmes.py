"""The examples' READMEs show what is in the files beside them, and the index leaves none out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import ROOT, find_blocks
from podtune.api.validation import parse_experiment
from podtune.cli.main import main
from podtune.cluster.pods.trial_module import needs_trial_module

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(page.parent.name for page in EXAMPLES.glob("*/README.md"))
MANIFESTS = sorted(EXAMPLES.glob("*/experiment.yaml"))
KUSTOMIZED = sorted(EXAMPLES.glob("*/kustomization.yaml"))
LARGEST_PICTURE = 60_000
OURS = "localhost/podtune-examples:dev"
"""The one image that has `podtune.trial`."""


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def is_part(part: Any, whole: Any) -> bool:
    """Whether all that a block shows is in the manifest."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(is_part, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_each_manifest_is_valid_and_shown_as_it_is(manifest: Path) -> None:
    assert main(["validate", str(manifest)]) == 0
    spec = read_yaml(manifest)["spec"]
    for block in find_blocks(manifest.with_name("README.md")):
        if block.language == "yaml":
            assert is_part(yaml.safe_load(block.text), spec), f"{block.place} shows what {manifest.name} doesn't say"


@pytest.mark.parametrize("path", KUSTOMIZED, ids=lambda path: path.parent.name)
def test_each_script_travels_to_where_its_trials_start(path: Path) -> None:
    kustomization, manifest = read_yaml(path), read_yaml(path.with_name("experiment.yaml"))
    [config_map] = kustomization["configMapGenerator"]
    for operation in yaml.safe_load(kustomization["patches"][0]["patch"]):
        *way, last = operation["path"].strip("/").split("/")
        there = manifest
        for step in way:
            there = there[int(step)] if isinstance(there, list) else there[step]
        there[last] = operation["value"]
    parse_experiment(manifest)
    pod = manifest["spec"]["trialTemplate"]["spec"]
    [volume], [container] = pod["volumes"], pod["containers"]
    assert volume["configMap"]["name"] == config_map["name"] == manifest["metadata"]["name"]
    assert container["volumeMounts"][0]["mountPath"] == container["workingDir"]
    assert all(path.with_name(file).is_file() for file in config_map["files"])
    assert set(config_map["files"]) & set(container["command"]), "the command starts another file"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_each_script_finds_the_module_that_it_imports_in_an_image_without_it(manifest: Path) -> None:
    template = read_yaml(manifest)["spec"]["trialTemplate"]["spec"]
    [container] = template["containers"]
    scripts = [path for path in map(manifest.with_name, container["command"]) if path.suffix == ".py" and path.exists()]
    imports = any("from podtune import trial" in script.read_text(encoding="utf-8") for script in scripts)
    assert needs_trial_module(template) == (imports and container["image"] != OURS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_readme_has_its_picture_and_is_in_the_index(folder: str) -> None:
    readme = (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
    assert f"({folder}/README.md)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^\]]+\]\(([\w.]+)\)", readme)
    assert pictures
    for picture in pictures:
        assert (EXAMPLES / folder / picture).stat().st_size <= LARGEST_PICTURE


def test_the_index_leaves_no_example_out() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert there == set(FOLDERS)
