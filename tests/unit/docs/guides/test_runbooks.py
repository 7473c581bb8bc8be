"""Each alert of the chart has a runbook and can be left out by name; no runbook is about an alert that is gone."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[4]
CHART = ROOT / "charts" / "podtune"
RUNBOOKS = ROOT / "docs" / "runbooks"
FAULTS = ROOT / "e2e" / "tests" / "monitoring"
GUIDE = ROOT / "docs" / "how-to" / "watch-the-operator.md"


def list_alerts() -> dict[str, dict[str, Any]]:
    groups = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def list_sections() -> dict[str, str]:
    """By the address of each section, relative to the runbooks: its text."""
    found: dict[str, str] = {}
    for page in RUNBOOKS.glob("*.md"):
        parts = re.split(r"^## (\w+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found |= {f"{page.name}#{name.lower()}": text for name, text in zip(parts[1::2], parts[2::2], strict=True)}
    return found


def list_fired(source: str) -> Iterator[str]:
    """Names of the alerts for which a test waits until they fire."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="wait_until_firing"), args=awaited):
                yield from (str(name.value) for name in awaited if isinstance(name, ast.Constant))
            case ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.In()]):
                yield name
            case ast.While(test=ast.Compare(left=ast.Constant(value=str(name)), ops=[ast.NotIn()])):
                yield name


def test_each_alert_has_a_runbook_and_the_other_way_round() -> None:
    linked = [rule["annotations"]["runbook_url"] for rule in list_alerts().values()]
    assert sorted(linked) == sorted(list_sections())
    for name, rule in list_alerts().items():
        assert rule["annotations"]["runbook_url"].endswith(f"#{name.lower()}")


def test_each_runbook_says_what_to_look_at_or_to_do() -> None:
    for address, text in list_sections().items():
        assert "**Look:**" in text or "**Do:**" in text, address


def test_the_guide_lists_each_alert_with_its_severity() -> None:
    rows = [line for line in GUIDE.read_text(encoding="utf-8").splitlines() if "](../runbooks/" in line]
    listed = {
        name: row.split("|")[1].split(",")[0].strip()
        for row in rows
        for name in re.findall(r"\[(\w+)\]\(\.\./runbooks", row)
    }
    assert listed == {name: rule["labels"]["severity"] for name, rule in list_alerts().items()}


def test_each_alert_can_be_left_out_by_name() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    rule = schema["properties"]["metrics"]["properties"]["prometheusRule"]
    assert rule["properties"]["disabled"]["items"]["enum"] == list(list_alerts())


def test_each_alert_is_fired_by_a_real_fault() -> None:
    """In `make test-long`, by a real Prometheus that scrapes a real operator."""
    fired = {name for file in FAULTS.glob("test_*.py") for name in list_fired(file.read_text(encoding="utf-8"))}
    assert set(list_alerts()) - fired == set()


def test_an_alert_that_is_only_named_has_not_been_fired() -> None:
    source = """
await scene.wait_until_firing("One", "Two")
while "Three" not in server.list_firing(): pass
await scene.wait_for(lambda: "Four" not in server.list_firing(), seen)
eventually(server.list_firing, lambda firing: "Five" in firing)
print("Six")
"""
    assert set(list_fired(source)) == {"One", "Two", "Three", "Five"}
