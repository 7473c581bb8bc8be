"""What the page on search algorithms says is what is accepted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.resources.experiment import MAX_FRONT
from podtune.api.tuning.compatibility import MULTI_OBJECTIVE, SEARCHERS, list_valid_pairs
from podtune.api.tuning.search_settings import GpSettings
from podtune.api.validation import parse_experiment

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "choose-a-search.md").read_text(encoding="utf-8")
SPECS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
DEFAULTS = {
    "objective": {"metric": "loss", "mode": "min"},
    "parameters": [{"name": "x", "int": {"min": 1, "max": 50}}],
    "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "registry.example/train:1"}]}},
}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec["search"]["algorithm"])
def test_every_manifest_is_accepted(spec: dict[str, Any]) -> None:
    parse_experiment({"metadata": {"name": "part"}, "spec": DEFAULTS | spec})


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, without its ruler."""
    table = PAGE.split(heading, 1)[1].split("\n\n")[1]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [cells[0], *cells[2:]]


def test_the_table_of_pairs_is_what_is_accepted() -> None:
    header, *lines = rows("## Combine a search with a scheduler")
    said = {
        (line[0], scheduler)
        for line in lines
        for scheduler, cell in zip(header[1:], line[1:], strict=True)
        if cell == "yes"
    }
    assert said == set(list_valid_pairs())


def test_every_algorithm_is_described() -> None:
    _, *lines = rows("The default is `tpe`")
    assert {name.strip(" `") for line in lines for name in line[0].split(",")} == SEARCHERS


def test_the_numbers_and_names_are_those_of_the_code() -> None:
    assert f"shows up to {MAX_FRONT} of them" in PAGE
    assert f"`gp.maxPoints` trials ({GpSettings().max_points} by default)" in PAGE
    objectives = PAGE.split("## Several objectives")[1].split("## BOHB")[0]
    assert all(f"`{name}`" in objectives for name in MULTI_OBJECTIVE)
