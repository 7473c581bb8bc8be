"""The tools themselves, from their Go modules, say of our files and objects what our quick tests say.

kstatus, Flux's evaluator and Argo CD's Lua agree with our own evaluation; krew's check and k9s' schemas take our files.
Needs Go 1.25 or later, and its module proxy.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from docs.fenced_blocks import ROOT
from integrations.krew import build
from podtune import __version__
from tests.gitops import flux
from tests.gitops.argo_cd import ArgoCustomization
from tests.gitops.kstatus import compute_kstatus
from tests.gitops.write_testdata import STATES
from tests.golden.keep_release import RELEASES

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

MODULE = Path(__file__).parent / "tools"
CHECK = flux.read_kustomization("complete.yaml")["spec"]["healthCheckExprs"][0]
ODD: dict[str, Any] = {
    "apiVersion": CHECK["apiVersion"],
    "kind": "Experiment",
    "metadata": {"name": "e", "generation": 2},
    "status": {"observedGeneration": 2, "conditions": [{"type": "Reconciling", "status": "True"}]},
}
"""Not one of ours: it has no Ready."""


def list_objects() -> list[dict[str, Any]]:
    """Objects in all states, and all that a release has recorded on a real cluster."""
    made = [make() for states in STATES.values() for make in states.values()]
    recorded = [
        json.loads(line)
        for path in sorted(RELEASES.glob("*/*.jsonl"))
        if path.stem in ("experiments", "trials")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    deleted = [{**one, "metadata": {**one["metadata"], "deletionTimestamp": "2026-11-26T12:00:00Z"}} for one in made]
    return [*made, *recorded, *deleted, ODD]


def read_script(manifest: dict[str, Any], name: str) -> str:
    return (ArgoCustomization(manifest["kind"]).folder / name).read_text(encoding="utf-8")


def run_go(module: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")
    return subprocess.run(
        [go, *words], cwd=module, input=given, capture_output=True, text=True, timeout=1100, check=False
    )


def ask_tools(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the tools say of each case."""
    answered = run_go(MODULE, "run", ".", given="".join(json.dumps(case) + "\n" for case in cases))
    assert answered.returncode == 0, answered.stderr[-4000:]
    return [json.loads(line) for line in answered.stdout.splitlines()]


def test_the_tools_say_what_our_evaluation_says() -> None:
    objects = list_objects()
    scripts = [read_script(manifest, "health.lua") for manifest in objects]
    said = ask_tools(
        [{"object": one, "flux": CHECK, "lua": script} for one, script in zip(objects, scripts, strict=True)]
    )
    assert len(said) == len(objects) > 100
    kustomization = {"spec": {"healthCheckExprs": [CHECK | {"kind": kind} for kind in STATES]}}
    for manifest, answer in zip(objects, said, strict=True):
        health, message = ArgoCustomization(manifest["kind"]).find_health(manifest)
        expected = {
            "kstatus": compute_kstatus(manifest),
            "flux": flux.check_health(kustomization, manifest),
            "lua": {"status": health, **({"message": message} if message else {})},
        }
        assert answer == expected, manifest["status"]


def test_actions_do_in_argos_lua_what_they_do_in_ours() -> None:
    cases = [
        (customization, make(), action)
        for kind, states in STATES.items()
        for customization in [ArgoCustomization(kind)]
        for action in customization.actions
        for make in states.values()
    ]
    said = ask_tools(
        [
            {"object": manifest, "flux": CHECK, "lua": read_script(manifest, f"actions/{action}/action.lua")}
            for _, manifest, action in cases
        ]
    )
    for (customization, manifest, action), answer in zip(cases, said, strict=True):
        changed = customization.act(manifest, action)["spec"]
        for field in ("suspend", "resume", "desiredState"):
            assert answer["lua"]["spec"].get(field) == changed.get(field), action
        assert (answer["lua"]["spec"].get("stop") or {}) == (changed.get("stop") or {}), action


def check_for_krew(folder: Path, manifest: str) -> subprocess.CompletedProcess[str]:
    """What krew says of a manifest, without trying its archives."""
    path = folder / "podtune.yaml"
    path.write_text(manifest, encoding="utf-8")
    return run_go(MODULE / "krew", "tool", "validate-krew-manifest", "-skip-install", "-manifest", str(path))


@pytest.fixture(scope="module")
def krew_manifest() -> str:
    archives = {name: name.encode() for name in build.PLATFORMS}
    return build.build_manifest(archives, __version__, "https://example.com/releases")


def test_krew_takes_the_manifest(tmp_path: Path, krew_manifest: str) -> None:
    checked = check_for_krew(tmp_path, krew_manifest)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    ("pattern", "broken", "reason"),
    [
        ("name: podtune", "name: Podtune", 'should be named "podtune", not "Podtune"'),
        (r"sha256: .", "sha256: ", "`sha256` value"),
        ("version: v", "version: ", "failed to parse plugin version"),
        ("shortDescription", "shortDescriptions", "should have a short description"),
        ("arch: arm64", "arch: amd64", "overlapping platform selectors"),
        ("os: darwin", "os: macos", "any supported platforms"),
    ],
)
def test_krew_refuses_a_broken_manifest(
    tmp_path: Path, krew_manifest: str, pattern: str, broken: str, reason: str
) -> None:
    checked = check_for_krew(tmp_path, re.sub(pattern, broken, krew_manifest))
    assert (checked.returncode != 0, reason in checked.stderr) == (True, True), checked.stderr


@pytest.fixture(scope="module")
def k9s_schemas() -> Path:
    """The folder that they lie in: k9s exports them to nobody."""
    downloaded = run_go(MODULE / "k9s", "mod", "download", "-json", "github.com/derailed/k9s")
    assert downloaded.returncode == 0, downloaded.stdout + downloaded.stderr
    return Path(json.loads(downloaded.stdout)["Dir"], "internal", "config", "json", "schemas")


def find_errors(schema: Path, document: object) -> list[str]:
    validator = Draft7Validator(json.loads(schema.read_text(encoding="utf-8")))
    return [error.message for error in validator.iter_errors(document)]


def read_k9s_file(name: str) -> Any:
    return yaml.safe_load((ROOT / "integrations" / "k9s" / name).read_text(encoding="utf-8"))


def test_k9s_takes_our_views_and_no_misspelt_key(k9s_schemas: Path) -> None:
    document = read_k9s_file("views.yaml")
    assert find_errors(k9s_schemas / "views.json", document) == []
    for view in document["views"].values():
        view["sortColum"] = view.pop("sortColumn")
    errors = find_errors(k9s_schemas / "views.json", document)
    assert len(errors) == len(document["views"]) == sum("'sortColum'" in error for error in errors)


def test_k9s_takes_our_plugins_and_no_misspelt_key(k9s_schemas: Path) -> None:
    document = read_k9s_file("plugins.yaml")
    assert find_errors(k9s_schemas / "plugins.json", document) == []
    for plugin in document["plugins"].values():
        # Of a plugin among others, k9s passes over keys that it doesn't know; its schema of a single one refuses them.
        assert find_errors(k9s_schemas / "plugin.json", plugin) == []
        [error] = find_errors(k9s_schemas / "plugin.json", {**plugin, "confrim": True})
        assert "'confrim'" in error
