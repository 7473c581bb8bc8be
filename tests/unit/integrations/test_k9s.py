"""k9s' views and plugins: columns that there are, commands that there are."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import ROOT
from podtune.api.crd.generate import RESOURCES, Resource, build_definition
from podtune.api.names import GROUP, VERSION
from podtune.cli.main import main

FOLDER = ROOT / "integrations" / "k9s"
VIEWS: dict[str, Any] = yaml.safe_load((FOLDER / "views.yaml").read_text(encoding="utf-8"))["views"]
PLUGINS: dict[str, Any] = yaml.safe_load((FOLDER / "plugins.yaml").read_text(encoding="utf-8"))["plugins"]
KNOWN_FIELDS = {
    "shortCut",
    "override",
    "description",
    "confirm",
    "dangerous",
    "scopes",
    "command",
    "background",
    "args",
}
"""Those of k9s' schema for plugins that we use."""
BY_PLURAL = {resource.plural: resource for resource in RESOURCES}


def find_field(resource: Resource, path: str) -> dict[str, Any] | None:
    """The schema of a field, by its path as a column has it."""
    schema: dict[str, Any] | None = build_definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path.strip(".").split("."):
        schema = (schema or {}).get("properties", {}).get(name)
    return schema


@pytest.mark.parametrize("plural", BY_PLURAL)
def test_a_view_shows_columns_that_there_are(plural: str) -> None:
    resource, view = BY_PLURAL[plural], VIEWS[f"{GROUP}/{VERSION}/{plural}"]
    printed = {column.name.upper() for column in resource.columns} | {"NAMESPACE", "NAME"}
    for column in view["columns"]:
        match = re.fullmatch(r"(?P<name>[A-Z-]+)(:(?P<path>[\w.]+))?(\|(?P<how>[TNWSHLR]+))?", column)
        assert match is not None, column
        assert match["name"] in printed if match["path"] is None else find_field(resource, match["path"]), column
    name, _, order = view["sortColumn"].partition(":")
    assert (name in printed, order in ("asc", "desc")) == (True, True)


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plugin_runs_a_command_that_there_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = PLUGINS[name]
    assert {"shortCut", "description", "scopes", "command"} <= plugin.keys() <= KNOWN_FIELDS
    assert set(plugin["scopes"]) <= BY_PLURAL.keys()
    line = " ".join(plugin["args"]).removeprefix("-c ").removeprefix("kubectl ").removesuffix(" | less -R")
    podtune, command, *words = line.split()
    assert (podtune, words[0]) == ("podtune", "$NAME")
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert [word for word in words if word.startswith("-") and word not in shown] == []


def test_no_two_plugins_share_a_key() -> None:
    keys = [plugin["shortCut"] for plugin in PLUGINS.values()]
    assert len(keys) == len(set(keys))


def test_what_ends_a_search_asks_first() -> None:
    assert PLUGINS["podtune-stop"]["confirm"] is True
    assert PLUGINS["podtune-stop"]["dangerous"] is True
