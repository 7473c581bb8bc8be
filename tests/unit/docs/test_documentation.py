"""What the documentation says is true: links lead somewhere, manifests are accepted, examples do what they claim."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import generate_reference, generate_rights
from docs.fenced_blocks import find_blocks
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.scheduler import AshaSettings
from podtune.api.validation import parse_experiment
from podtune.tuning.schedulers.asha import Asha
from podtune.tuning.schedulers.base import SchedulerAction
from tests.documented_manifests import complete, list_documents

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OTHERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
OTHERS += sorted((ROOT / "examples").rglob("*.md"))

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)|<[^>]* (?:src|srcset|href)=\"(?P<attribute>[^\"]+)\"")
MOST_GUIDES = 8
"""In one group of the navigation: readers look for their problem, not for a title in a list."""


def blocks(page: Path, language: str) -> Iterator[str]:
    return (block.text for block in find_blocks(page) if block.language == language)


DOCUMENTS = [(block.place, document) for block, document in list_documents()]
EXPERIMENTS = [
    (place, whole) for place, part in DOCUMENTS if (whole := complete(part)) and whole["kind"] == "Experiment"
]
VALUES = [(place, part) for place, part in DOCUMENTS if complete(part) is None]


def read_nav() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return entries


def navigation() -> list[str]:
    def leaves(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        else:
            for child in node.values() if isinstance(node, dict) else node:
                yield from leaves(child)

    return list(leaves(read_nav()))


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(navigation()) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_guides_are_in_groups_that_can_be_taken_in() -> None:
    [groups] = [entry["How-to guides"] for entry in read_nav() if "How-to guides" in entry]
    sizes = {name: len(pages) for group in groups for name, pages in group.items()}
    assert [name for name, size in sizes.items() if size > MOST_GUIDES] == []


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        written = match["target"] or match["attribute"]
        target, _, anchor = written.partition("#")
        if "://" in target:
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), written
        if anchor:
            assert anchor in anchors(there), written


def anchors(page: Path) -> set[str]:
    """Anchors of headings, as mkdocs makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize(("place", "manifest"), EXPERIMENTS, ids=[place for place, _ in EXPERIMENTS])
def test_every_experiment_and_part_of_one_is_accepted(place: str, manifest: dict[str, Any]) -> None:
    parse_experiment(manifest)


@pytest.mark.parametrize(("place", "part"), VALUES, ids=[place for place, _ in VALUES])
def test_what_is_no_manifest_is_a_value_of_the_chart(place: str, part: dict[str, Any]) -> None:
    values = yaml.safe_load((ROOT / "charts" / "podtune" / "values.yaml").read_text(encoding="utf-8"))
    assert part.keys() <= values.keys(), f"{place}: neither a manifest, a part of one, nor values of the chart"


def test_the_tutorials_program_reports_what_its_experiment_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [yaml.safe_load(text) for text in blocks(DOCS / "tutorial" / "first-experiment.md", "yaml")]
    program, experiment = documents
    spec = parse_experiment(experiment)
    monkeypatch.setenv("PODTUNE_DIR", str(tmp_path))
    monkeypatch.setenv("PODTUNE_PARAM_learning_rate", "0.01")
    monkeypatch.setenv("PODTUNE_PARAM_width", "256")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    exec(compile(program["data"]["train.py"], "train.py", "exec"), {})

    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert spec.scheduler.asha is not None
    assert [result[spec.scheduler.asha.time_attribute] for result in results] == list(range(1, 28))
    assert results[-1][spec.objective.metric] > 0.9
    assert {parameter.name for parameter in spec.parameters} == {"learning_rate", "width"}


def test_the_example_of_ashas_rule_comes_out_as_the_page_says() -> None:
    def asha_after(*values: float) -> Asha:
        settings = AshaSettings(time_attribute="epoch", max_time=27, grace_period=1, reduction_factor=3)
        asha = Asha(settings, Objective(metric="accuracy", mode="max"), seed=0)
        for trial, value in enumerate(values):
            asha.on_trial_add(trial, {})
            asha.on_result(trial, {"epoch": 9, "accuracy": value})
        asha.on_trial_add(len(values), {})
        return asha

    stopped = asha_after(0.5, 0.6, 0.7, 0.8).on_result(4, {"epoch": 9, "accuracy": 0.69})
    went_on = asha_after(0.5, 0.6, 0.7, 0.8).on_result(4, {"epoch": 9, "accuracy": 0.7})

    assert stopped.message in (DOCS / "explanation" / "asha.md").read_text(encoding="utf-8")
    assert (stopped.action, went_on.action) == (SchedulerAction.STOP, SchedulerAction.CONTINUE)


def test_the_table_of_rights_is_up_to_date() -> None:
    for path, text in generate_rights.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run python docs/generate_rights.py --write"


def test_a_right_without_a_reason_is_not_granted() -> None:
    rule = '- {apiGroups: [""], resources: [pods], verbs: [get]}\n'
    template = '{{- define "podtune.rules" -}}\n# Why.\n' + rule + rule + "{{- end -}}"
    with pytest.raises(SystemExit, match="needs a comment above it"):
        list(generate_rights.rules(template, "podtune.rules"))


def test_the_generated_reference_is_what_the_code_says() -> None:
    """Otherwise run `python docs/generate_reference.py --write`."""
    for path, text in generate_reference.pages().items():
        assert path.read_text(encoding="utf-8") == text, f"run python docs/generate_reference.py --write ({path.name})"
