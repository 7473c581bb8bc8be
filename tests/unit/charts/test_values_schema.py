"""The charts' schemas take what is documented, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

CHARTS = Path(__file__).parents[3] / "charts"
OPEN = {".global"}
"""Helm's own: what a chart around this one shares with it."""


def read_schema(chart: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((CHARTS / chart / "values.schema.json").read_text())
    return schema


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within one, by a path that says where it stands."""
    yield path, schema
    for keyword in ("properties", "definitions"):
        for name, below in schema.get(keyword, {}).items():
            yield from walk(below, f"{path}.{name}" if keyword == "properties" else f"{path}#{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from walk(schema[keyword], f"{path}[]")
    for number, below in enumerate(schema.get("oneOf", ())):
        if "properties" in below or "type" in below:
            yield from walk(below, f"{path}|{number}")


def list_open(schema: dict[str, Any]) -> set[str]:
    """Where keys would be taken that nobody knows, or entries of which nothing is known."""
    return {
        path
        for path, below in walk(schema)
        if (below.get("type") == "object" and below.get("additionalProperties", True) is True)
        or (below.get("type") == "array" and "items" not in below)
    }


@pytest.mark.parametrize("chart", ["podtune", "podtune-crds"])
def test_no_level_takes_a_key_that_nobody_knows(chart: str) -> None:
    assert list_open(read_schema(chart)) == OPEN


def test_a_level_that_is_open_is_found() -> None:
    schema = read_schema("podtune")
    del schema["properties"]["dashboard"]["properties"]["proxy"]["additionalProperties"]
    schema["definitions"]["toleration"]["additionalProperties"] = True
    assert list_open(schema) == {*OPEN, ".dashboard.proxy", "#toleration"}


def test_each_value_of_the_schema_has_a_default_and_the_other_way_round() -> None:
    def list_names(values: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
        for name in {*values, *schema["properties"]} - {"global"}:
            if name not in values or name not in schema["properties"]:
                yield f"{path}{name}"
            elif "properties" in (below := schema["properties"][name]):
                yield from list_names(values[name], below, f"{path}{name}.")

    values = yaml.safe_load((CHARTS / "podtune" / "values.yaml").read_text())
    assert sorted(list_names(values, read_schema("podtune"))) == []
