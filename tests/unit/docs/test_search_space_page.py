"""The page's manifests: each is accepted, and comes to what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.expressions.arithmetic import FUNCTIONS
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.validation import parse_experiment
from podtune.tuning.searchers.base import Configuration
from podtune.tuning.searchers.factory import make_searcher

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "search-space.md").read_text(encoding="utf-8")
SECTIONS = {
    title: [yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)]
    for title, section in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
SNIPPETS = [(title, snippet) for title, snippets in SECTIONS.items() for snippet in snippets]


def spec(snippet: dict[str, Any]) -> ExperimentSpec:
    whole = {
        "objective": {"metric": "loss", "mode": "min"},
        "search": {"algorithm": "random", "maxTrials": 100},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "registry.example/train:1"}]}},
        **snippet,
    }
    return parse_experiment({"metadata": {"name": "page"}, "spec": whole})


def proposals(snippet: dict[str, Any], count: int = 60) -> list[Configuration]:
    searcher = make_searcher(spec(snippet))
    proposed = [searcher.ask(number, []) for number in range(count)]
    return [each.configuration for each in proposed if each is not None]


def test_every_section_has_a_manifest() -> None:
    assert [title for title, snippets in SECTIONS.items() if not snippets] == []


@pytest.mark.parametrize(("title", "snippet"), SNIPPETS, ids=[title for title, _ in SNIPPETS])
def test_every_manifest_is_accepted_and_searched(title: str, snippet: dict[str, Any]) -> None:
    assert proposals(snippet, 5)


def test_fixed_and_computed_values_are_what_the_page_says() -> None:
    for found in proposals(SECTIONS["Fixed and computed values"][0]):
        batch_size = int(found["batch_size"])
        assert found["workers"] == 4
        assert found["per_worker"] == batch_size // 4
        assert found["learning_rate"] == pytest.approx(batch_size / 2560)
        assert found["precision"] == ("bf16" if batch_size > 128 else "fp32")


def test_parameters_exist_when_the_page_says() -> None:
    found = proposals(SECTIONS["Conditional parameters"][0])
    assert {each["optimizer"] for each in found} == {"sgd", "adam", "lion"}
    for each in found:
        is_sgd = each["optimizer"] == "sgd"
        assert ("momentum" in each) == ("nesterov" in each) == is_sgd
        assert ("beta1" in each) == (not is_sgd)
        assert ("damping" in each) == (is_sgd and each["nesterov"] is False)


def test_constraints_hold() -> None:
    for found in proposals(SECTIONS["Constraints"][0]):
        assert int(found["batch_size"]) * int(found["workers"]) <= 1024
        assert int(found["frozen_layers"]) < int(found["layers"])
        assert int(found["batch_size"]) % int(found["workers"]) == 0


@pytest.mark.parametrize("snippet", SECTIONS["Finite spaces"][:2])
def test_a_finite_space_has_as_many_configurations_as_its_max_trials(snippet: dict[str, Any]) -> None:
    assert len(proposals(snippet)) == snippet["search"]["maxTrials"]


def test_the_functions_of_the_page_are_all_of_the_language() -> None:
    named = re.search(r"the functions `([a-z ]+)`", PAGE)
    assert named is not None
    assert set(named[1].split()) == FUNCTIONS.keys() - {"isnan", "isfinite"}  # parameters are always finite


def test_a_grid_of_some_parameters_begins_again_with_new_draws_of_the_others() -> None:
    found = proposals(SECTIONS["Finite spaces"][2], count=20)
    assert [each["optimizer"] for each in found] == ["sgd", "adam"] * 10
    assert len({each["learning_rate"] for each in found}) == 20
