"""The page on GitOps says what the tools say, and shows what is in the files that it names."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import ROOT, find_blocks
from podtune.api.names import EXPERIMENT_KIND, GROUP
from tests.gitops import flux, states
from tests.gitops.argo_cd import ArgoCustomization
from tests.gitops.kstatus import compute_kstatus

PAGE = ROOT / "docs" / "how-to" / "deploy-by-gitops.md"
TEXT = PAGE.read_text(encoding="utf-8")
SHOWN = [yaml.safe_load(block.text) for block in find_blocks(PAGE) if block.language == "yaml"]
ROWS = {
    "was applied or changed": ("applied", "changed"),
    "runs": ("running", "resumed"),
    "is being suspended or stopped": ("suspending", "stopping"),
    "is suspended": ("suspended",),
    "is complete": ("complete", "stopped"),
    "has failed": ("failed",),
    "can't go on": ("stalled",),
}


def find_shown(kind: str) -> dict[str, Any]:
    found: dict[str, Any]
    [found] = [document for document in SHOWN if document["kind"] == kind]
    return found


@pytest.mark.parametrize("row", ROWS)
def test_the_table_says_what_the_tools_say(row: str) -> None:
    [line] = re.findall(rf"^\| {row}.*$", TEXT, re.MULTILINE)
    said = tuple(cell.strip(" *") for cell in line.strip("|").split("|")[1:])
    check = flux.read_kustomization("complete.yaml")
    for state in ROWS[row]:
        manifest = states.EXPERIMENTS[state]()
        health, _ = ArgoCustomization("Experiment").find_health(manifest)
        assert said == (compute_kstatus(manifest), health, flux.check_health(check, manifest)), state


def test_every_state_is_in_the_table() -> None:
    assert {state for listed in ROWS.values() for state in listed} == states.EXPERIMENTS.keys()


def test_the_expressions_for_flux_are_those_of_the_file() -> None:
    assert find_shown("Kustomization") == flux.read_kustomization("complete.yaml")


def test_argo_cd_is_told_to_leave_the_fields_that_its_actions_set() -> None:
    [ignored] = find_shown("Application")["spec"]["ignoreDifferences"]
    assert (ignored["group"], ignored["kind"]) == (GROUP, EXPERIMENT_KIND)
    left = {pointer.split("/")[2] for pointer in ignored["jsonPointers"]}
    customization = ArgoCustomization("Experiment")
    for state in ("running", "suspended", "stopped"):
        before = states.EXPERIMENTS[state]()
        for action in customization.actions:
            after = customization.act(before, action)["spec"]
            assert {key for key in after if after[key] != before["spec"].get(key)} <= left


def test_every_file_that_the_page_names_is_there() -> None:
    named = re.findall(r"integrations/[\w./-]+", TEXT)
    assert named
    assert [name for name in named if not (ROOT / name.rstrip(".")).exists()] == []
