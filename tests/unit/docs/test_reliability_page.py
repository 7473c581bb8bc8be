"""The page on reliability says what was measured, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path

from docs import generate_reliability
from e2e.chaos.perturbation import Fault

ROOT = Path(__file__).parents[3]
CHAOS = json.loads((ROOT / "e2e" / "chaos" / "figures.json").read_text())
SOAK = json.loads((ROOT / "e2e" / "soak" / "figures.json").read_text())


def test_the_page_is_made_of_the_figures() -> None:
    """Otherwise run `python docs/generate_reliability.py --write`."""
    assert (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8") == generate_reliability.page(CHAOS, SOAK)


def test_what_is_broken_is_said() -> None:
    text = generate_reliability.page({**CHAOS, "broken": ["plain/create-pod.1/500"]}, SOAK)
    assert "1 broke a promise**" in text
    assert "- broken: `plain/create-pod.1/500`" in text


def test_what_has_grown_or_gone_wrong_in_a_soak_is_said() -> None:
    agent = SOAK["processes"]["agent"]
    grown = {**SOAK["processes"], "agent": {**agent, "files": {**agent["files"], "growth": 40, "flat": False}}}
    text = generate_reliability.page(CHAOS, {**SOAK, "processes": grown, "problems": ["soak-3 has not ended"]})
    assert "problems: 1." in text
    assert "- soak-3 has not ended" in text
    assert re.search(r"\| agent \| files \| \d+ \| \+40 \| grows \|", text)


def test_what_was_run_again_is_said() -> None:
    from e2e.chaos.figures import merged

    whole = CHAOS | {"rerun": [], "broken": ["a/b.1/500"], "brokenBefore": []}
    again = whole | {"groups": {"clocks": whole["groups"]["kills"]}, "broken": []}
    both = merged(whole, again, {"a/b.1/500"})
    assert both["broken"] == []
    text = generate_reliability.page(both, SOAK)
    assert "place of their first figures: clocks." in text
    assert "not when they were run again: `a/b.1/500`." in text


def test_the_sample_in_the_tests_has_faults_of_all_groups() -> None:
    from e2e.chaos.campaign import sample
    from e2e.chaos.groups.catalog import groups

    every = int(re.search(r"--every (\d+)", (ROOT / "Makefile").read_text())[1])  # type: ignore[index]
    chosen = sample(groups(), every)
    faults = {perturbation.fault for group in chosen for perturbation in group.perturbations}
    assert [group.name for group in chosen if not group.perturbations] == []
    assert {Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.LOSE_REPLY, Fault.TIMEOUT_BEFORE, Fault.TIMEOUT_AFTER} <= faults


def test_every_group_of_faults_tests_a_promise() -> None:
    from e2e.chaos.groups.catalog import groups

    names = {group.name for group in groups()}
    assert names == generate_reliability.PLACES.keys()
    assert names == {name for promise in generate_reliability.PROMISES for name in promise.groups}


def test_the_matrix_is_large_and_without_doubles() -> None:
    from e2e.chaos.groups.catalog import groups

    ids = [perturbation.id for group in groups() for perturbation in group.perturbations]
    assert len(ids) == len(set(ids))
    assert len(ids) >= 400
