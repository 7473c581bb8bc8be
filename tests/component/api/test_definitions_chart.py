"""The chart of the definitions under stored objects: upgraded from each release, uninstalled, and installed again.

On the local cluster, uninstalling them would be felt by all other tests. So this one has an API server of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.kubernetes import eventually
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest
from tests.component.own_api_server import find_programs, running_api_server
from tests.golden.keep_release import RELEASES

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

TODAY = Path(__file__).parents[3] / "charts" / "podtune-crds"
RELEASED = sorted(path.name for path in RELEASES.iterdir())
TEAM, COPIES = "team", "copies"
STORED = 4
"""Objects of each kind, the ones with most in them."""
COLLECTIONS = {"experiments": paths.experiments(TEAM), "trials": paths.trials(TEAM)}
DEFINITIONS = [paths.definition(f"{kind}.podtune.dev") for kind in COLLECTIONS]


@dataclass(frozen=True, slots=True)
class Installation:
    """An API server, and Helm as an administrator has it."""

    helm: Path
    kubeconfig: Path
    api: HttpApi

    def run_helm(self, *words: str) -> None:
        """Runs Helm on it."""
        home = self.kubeconfig.parent / "helm"
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(home)}
        command = [str(self.helm), *words, f"--namespace={TEAM}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
        assert done.returncode == 0, done.stderr

    def read_objects(self) -> list[Manifest]:
        """All Experiments and Trials, as they are answered now."""
        return [found for path in COLLECTIONS.values() for found in self.api.list_all(path)]


@pytest.fixture(params=RELEASED)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Installation, str]]:
    """The definitions of a release, with some of its objects stored; and which release."""
    release = str(request.param)
    binaries = find_programs()
    with running_api_server(binaries, tmp_path) as kubeconfig:
        installation = Installation(binaries / "helm", kubeconfig, HttpApi(connect(kubeconfig)))
        for namespace in (TEAM, COPIES):
            installation.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        installation.run_helm("install", "podtune-crds", str(write_chart(release, tmp_path / "chart")))
        for kind, path in COLLECTIONS.items():
            eventually(partial(is_served, installation.api, path), what=f"{kind} are served")
            for found in choose_objects(release, kind):
                installation.api.create(path, found)
                status = paths.status_of(paths.name_in(path, found["metadata"]["name"]))
                installation.api.patch(status, {"status": found["status"]})
        yield installation, release


def write_chart(release: str, folder: Path) -> Path:
    """The chart as the release had it, made of the definitions that are kept of it."""
    shutil.copytree(RELEASES / release / "crds", folder / "templates")
    described = yaml.safe_load((TODAY / "Chart.yaml").read_text()) | {"version": release, "appVersion": release}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(described))
    return folder


def choose_objects(release: str, kind: str) -> list[Manifest]:
    """Those of a release's objects that say most, as somebody would restore them from a backup."""
    lines = (RELEASES / release / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in sorted(lines, key=len) if '"status":' in line]
    chosen = list({each["metadata"]["name"]: each for each in found}.values())[-STORED:]
    named = ("name", "labels", "annotations")
    for each in chosen:
        each["metadata"] = {key: each["metadata"][key] for key in named if key in each["metadata"]}
        each["metadata"]["namespace"] = TEAM
    return chosen


def is_served(api: HttpApi, path: str) -> bool:
    try:
        api.get(path)
    except ApiRefusal as refusal:
        if refusal.status not in (404, 429):  # 429: its storage is being made
            raise
        return False
    return True


def list_fields(definition: Manifest) -> set[str]:
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return set(spec["properties"])


def knows(installation: Installation, field: str) -> bool:
    """Whether the definitions in effect have a field: those of an upgrade are a moment after Helm has returned."""
    (found, *_) = installation.api.list_all(COLLECTIONS["experiments"])
    asked = {**found, "metadata": {"name": "asked", "namespace": TEAM}, "spec": {**found["spec"], field: "x"}}
    try:
        installation.api.create(COLLECTIONS["experiments"], asked, {"dryRun": "All", "fieldValidation": "Strict"})
    except ApiRefusal as refusal:
        return f'unknown field "spec.{field}"' not in refusal.message
    return True


def is_within(before: Any, after: Any) -> bool:
    """Whether nothing of a value is lost; newer definitions may fill in defaults."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(key in after and is_within(before[key], after[key]) for key in before)
    if isinstance(before, list):
        return isinstance(after, list) and len(before) == len(after) and all(map(is_within, before, after))
    return bool(before == after)


def read_content(found: Manifest) -> Manifest:
    return {"name": found["metadata"]["name"], "spec": found["spec"], "status": found["status"]}


def test_objects_survive_an_upgrade_and_the_end_of_the_release(installed: tuple[Installation, str]) -> None:
    installation, release = installed
    stored = installation.read_objects()
    assert len(stored) == STORED * len(COLLECTIONS)

    installation.run_helm("upgrade", "podtune-crds", str(TODAY))
    earlier = yaml.safe_load((RELEASES / release / "crds" / "experiments.podtune.dev.yaml").read_text())
    for field in sorted(list_fields(installation.api.get(DEFINITIONS[0])) - list_fields(earlier)):
        eventually(partial(knows, installation, field), what=f"the upgraded definitions know spec.{field}")
    upgraded = installation.read_objects()
    for before, after in zip(stored, upgraded, strict=True):
        name, path = after["metadata"]["name"], COLLECTIONS[f"{after['kind'].lower()}s"]
        assert is_within(read_content(before), read_content(after)), name
        installation.api.patch(paths.name_in(path, name), {"metadata": {"labels": {"looked-at": "true"}}})
        # What a change leaves as it was may be invalid; in a new object nothing may.
        copy = {**after, "metadata": {"name": name, "namespace": COPIES}}
        there = path.replace(f"/{TEAM}/", f"/{COPIES}/")
        installation.api.create(there, copy, {"dryRun": "All", "fieldValidation": "Strict"})

    kept = installation.read_objects()
    installation.run_helm("uninstall", "podtune-crds", "--wait")
    for path in DEFINITIONS:
        assert "deletionTimestamp" not in installation.api.get(path)["metadata"]
    assert installation.read_objects() == kept

    installation.run_helm("install", "podtune-crds", str(TODAY))
    assert [read_content(found) for found in installation.read_objects()] == [read_content(found) for found in kept]
