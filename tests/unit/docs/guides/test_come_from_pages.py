"""The pages for those who come from other tuners name what is there; their manifests are parsed with all the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import find_blocks
from podtune import trial
from podtune.agent.results.stdout_results import match_line
from podtune.api.document_checks import check_document
from podtune.cli.command_table import PODTUNE
from podtune.trial.layout import ENV_INDEX

ROOT = Path(__file__).resolve().parents[4]
PAGES = {page.stem: page for page in sorted((ROOT / "docs" / "how-to").glob("come-from-*.md"))}
TEXTS = {name: page.read_text(encoding="utf-8") for name, page in PAGES.items()}
SCHEMA: Mapping[str, Any] = next(yaml.safe_load_all((ROOT / "crds" / "experiments.podtune.dev.yaml").read_text()))[
    "spec"
]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
KATIB = next(yaml.safe_load(block.text) for block in find_blocks(PAGES["come-from-katib"]) if block.language == "text")
LONGEST_PAGE = 1500


def ours(name: str) -> Iterator[str]:
    """What stands in backticks in the right columns of a page's tables."""
    for line in TEXTS[name].splitlines():
        if line.startswith("| "):
            yield from re.findall(r"`([^`]+)`", line.split(" | ", 1)[1])


def has_field(path: list[str], fields: Mapping[str, Any]) -> bool:
    """Whether there is such a field below some others."""
    below = fields.get(path[0])
    if below is None:
        return False
    below = below.get("items", below)
    return not path[1:] or "x-kubernetes-preserve-unknown-fields" in below or has_field(path[1:], below["properties"])


@pytest.mark.parametrize("name", PAGES)
def test_every_field_that_a_page_names_is_there(name: str) -> None:
    spec, status = (SCHEMA[part]["properties"] for part in ("spec", "status"))
    paths = [span.split(":")[0].split(".") for span in ours(name) if re.match(r"[a-z]\w*\.\w+[\w.]*(:|$)", span)]
    named = [path for path in paths if path[0] in spec or path[0] == "status"]
    lacking = [path for path in named if not has_field(path if path[0] in spec else path[1:], {**status, **spec})]
    assert named, "the page names no field"
    assert lacking == []


@pytest.mark.parametrize("name", PAGES)
def test_every_command_and_function_that_a_page_names_is_there(name: str) -> None:
    commands = set(re.findall(r"`(?:kubectl )?podtune ([a-z]+)", TEXTS[name]))
    functions = {word for span in ours(name) for word in re.findall(r"^trial\.(\w+)", span)}
    assert commands <= PODTUNE.commands.keys() | {"checkpoints"}
    assert functions <= set(trial.__all__)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_and_says_what_is_lacking(name: str) -> None:
    assert len(TEXTS[name].split()) <= LONGEST_PAGE
    assert "## What is called how" in TEXTS[name]
    if name != "come-from-ray-tune":
        assert 3 <= TEXTS[name].split("## What is different")[1].split("## ")[0].count("\n- ") <= 5
        assert "## What Podtune lacks" in TEXTS[name]


def test_validate_says_of_each_field_of_katibs_what_to_write() -> None:
    problems = {problem.field: problem.what for problem in check_document(KATIB)}
    fields = set(KATIB["spec"]) - {"objective", "parameters", "trialTemplate"}
    fields |= {f"objective.{name}" for name in KATIB["spec"]["objective"]}
    fields |= {f"trialTemplate.{name}" for name in KATIB["spec"]["trialTemplate"]}
    assert {f"spec.{field}" for field in fields} <= problems.keys()
    for field in fields:
        assert re.search(r"; (write|leave it out)", problems[f"spec.{field}"]), field


def test_the_line_that_syne_tune_prints_is_read() -> None:
    block = next(block.text for block in find_blocks(PAGES["come-from-syne-tune"]) if "stdout" in block.text)
    pattern = yaml.safe_load(block)["results"]["stdout"]["pattern"]
    printed = '[tune-metric]: {"epoch": 3, "accuracy": 0.91, "st_worker_timestamp": 1.7e9, "st_worker_iter": 2}'
    line = match_line(re.compile(pattern), printed)
    assert line is not None
    assert dict(line.metrics) == {"epoch": 3, "accuracy": 0.91}


def test_the_variable_with_the_trials_number_is_set() -> None:
    assert f"`${ENV_INDEX}`" in TEXTS["come-from-optuna"]
