"""kstatus, Flux's evaluator and Argo CD's Lua themselves, built from their Go modules, agree with our own evaluation.

Needs Go 1.25 or later, and its module proxy.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

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


def ask_tools(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the tools say of each case."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")
    given = "".join(json.dumps(case) + "\n" for case in cases)
    answered = subprocess.run(
        [go, "run", "."], cwd=MODULE, input=given, capture_output=True, text=True, timeout=1100, check=False
    )
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
