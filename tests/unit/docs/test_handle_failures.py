"""What the page on failures says is what is done."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.resources.failures import FailureAction, Failures
from podtune.api.validation import parse_experiment
from podtune.runner.actions import LOG_LINES, LOG_TAIL
from podtune.runner.attempts.classification import FailureClass

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "handle-failures.md").read_text(encoding="utf-8")
SPECS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
DEFAULTS: dict[str, Any] = {
    "objective": {"metric": "loss", "mode": "min"},
    "parameters": [{"name": "x", "int": {"min": 1, "max": 50}}],
    "search": {"algorithm": "random", "maxTrials": 4},
    "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "registry.example/train:1"}]}},
}


@pytest.mark.parametrize("part", SPECS, ids=lambda part: next(iter(part)))
def test_every_manifest_is_accepted(part: dict[str, Any]) -> None:
    parse_experiment({"metadata": {"name": "part"}, "spec": DEFAULTS | part})


def first_column(heading: str) -> list[str]:
    table = PAGE.split(heading, 1)[1]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [line.split("|")[1].strip(" `") for line in lines[2:]]


def test_every_class_and_every_action_is_described() -> None:
    classes = re.findall(r"\| `([a-z]+)` \|", PAGE)
    assert sorted(classes) == sorted(FailureClass)
    assert first_column("matches if all its fields match")[: len(FailureAction)] == list(FailureAction)


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"the last {LOG_LINES} lines" in PAGE
    assert f"({LOG_TAIL // 1024} KiB at most)" in PAGE
    shown = SPECS[0]["failures"]
    defaults = Failures().model_dump(by_alias=True)
    for field in ("maxFailures", "maxDisruptions", "maxInfrastructureFailures", "backoff"):
        assert shown[field] == defaults[field]
