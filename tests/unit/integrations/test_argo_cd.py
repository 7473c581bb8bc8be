"""Argo CD's health checks and actions, by the tests in its own layout, and on Experiments and Trials in every state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.generate_argo_cd import CONFIG_MAP, build_config_map
from podtune.api.resources.trial import TrialSpec
from podtune.api.validation import parse_experiment
from tests.gitops.argo_cd import CUSTOMIZATIONS, ArgoCustomization, read_yaml, run_lua
from tests.gitops.write_testdata import STATES, build_testdata

KINDS = tuple(STATES)
FIX = "run `python -m tests.gitops.write_testdata`, and look at what it has changed"


def list_tests(file: str, key: str) -> list[Any]:
    """The cases in the files of that name, one each, with their kinds."""
    return [
        pytest.param(kind, test, id=f"{kind}-{test.get('action', key)}-{Path(test['inputPath']).stem}")
        for kind in KINDS
        for test in read_yaml(CUSTOMIZATIONS / kind / file)[key]
    ]


@pytest.mark.parametrize(("kind", "test"), list_tests("health_test.yaml", "tests"))
def test_health_is_what_the_test_in_argos_layout_says(kind: str, test: dict[str, Any]) -> None:
    status, message = ArgoCustomization(kind).find_health(read_yaml(CUSTOMIZATIONS / kind / test["inputPath"]))
    assert {"status": status, "message": message} == test["healthStatus"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_state_has_a_health(kind: str) -> None:
    tested = {Path(test["inputPath"]).stem for test in read_yaml(CUSTOMIZATIONS / kind / "health_test.yaml")["tests"]}
    assert tested == STATES[kind].keys()


@pytest.mark.parametrize(("kind", "test"), list_tests("actions/action_test.yaml", "discoveryTests"))
def test_the_menu_offers_what_the_state_allows(kind: str, test: dict[str, Any]) -> None:
    manifest = read_yaml(CUSTOMIZATIONS / kind / "actions" / test["inputPath"])
    shown = ArgoCustomization(kind).discover_actions(manifest)
    assert shown == {entry["name"]: not entry["disabled"] for entry in test["result"]}


@pytest.mark.parametrize(("kind", "test"), list_tests("actions/action_test.yaml", "actionTests"))
def test_an_action_asks_for_one_thing_and_what_it_makes_is_valid(kind: str, test: dict[str, Any]) -> None:
    folder = CUSTOMIZATIONS / kind / "actions"
    before, expected = read_yaml(folder / test["inputPath"]), read_yaml(folder / test["expectedOutputPath"])
    changed = ArgoCustomization(kind).act(before, test["action"])
    assert changed == expected
    assert {key: value for key, value in changed.items() if key != "spec"} == {
        key: value for key, value in before.items() if key != "spec"
    }
    if kind == "Experiment":
        parse_experiment(changed)
    else:
        TrialSpec.model_validate(changed["spec"])


ASKED: list[tuple[str, str, str, dict[str, Any]]] = [
    ("Experiment", "running", "suspend", {"suspend": True}),
    ("Experiment", "running", "stop", {"stop": {"now": True}}),
    ("Experiment", "suspended", "resume", {"suspend": False}),
    ("Experiment", "complete", "resume", {"suspend": False, "resume": {"id": "1"}}),
    ("Experiment", "stopped", "resume", {"suspend": False, "resume": {"id": "1"}, "stop": {}}),
    ("Trial", "running", "pause", {"desiredState": "Paused"}),
    ("Trial", "paused", "resume", {"desiredState": "Running"}),
    ("Trial", "running", "stop", {"desiredState": "Stopped"}),
]


@pytest.mark.parametrize(("kind", "state", "action", "asked"), ASKED)
def test_an_action_sets_the_fields_that_the_command_line_sets(
    kind: str, state: str, action: str, asked: dict[str, Any]
) -> None:
    before = STATES[kind][state]()
    after = ArgoCustomization(kind).act(before, action)["spec"]
    different = {key for key in after.keys() | before["spec"].keys() if after.get(key) != before["spec"].get(key)}
    assert {key: after.get(key) for key in different} == asked


def test_an_experiment_that_was_resumed_is_resumed_once_more() -> None:
    manifest = STATES["Experiment"]["complete"]()
    manifest["spec"]["resume"] = {"id": "7", "errored": "Resume"}
    assert ArgoCustomization("Experiment").act(manifest, "resume")["spec"]["resume"] == {"id": "8"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_action_is_in_the_menu(kind: str) -> None:
    customization = ArgoCustomization(kind)
    assert customization.actions == sorted(customization.discover_actions(STATES[kind]["running"]()))


def test_the_objects_are_what_the_operator_writes() -> None:
    stale = [str(path) for path, manifest in build_testdata() if not path.exists() or read_yaml(path) != manifest]
    assert stale == [], FIX


def test_the_config_map_holds_the_scripts() -> None:
    assert CONFIG_MAP.read_text(encoding="utf-8") == build_config_map(), "run `make generate`"
    data = read_yaml(CONFIG_MAP)["data"]
    manifest = STATES["Experiment"]["suspended"]()
    assert run_lua(data["resource.customizations.health.podtune.dev_Experiment"], manifest)["status"] == "Suspended"
    actions = yaml.safe_load(data["resource.customizations.actions.podtune.dev_Experiment"])
    assert [entry["name"] for entry in actions["definitions"]] == ["resume", "stop", "suspend"]
    assert run_lua(actions["discovery.lua"], manifest)["resume"]["disabled"] is False
