"""Each search algorithm and scheduler has a page, with a picture of a simulated experiment and an example from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.algorithm_pictures import schedulers, searchers
from docs.algorithm_pictures.simulated import BOX, read_point, read_value, simulate
from docs.draw_algorithms import DRAWN, FOLDER
from podtune.api.tuning.compatibility import SEARCHERS
from podtune.api.tuning.scheduler import SCHEDULERS
from podtune.simulation.trace import SimulationResult

EXPLANATION = Path(__file__).resolve().parents[4] / "docs" / "explanation"
PAGES = {
    "asha": ("asha",),
    "asha-promotion": ("ashaPromotion",),
    "hyperband": ("hyperband",),
    "median-stopping": ("median",),
    "population-based-training": ("pbt",),
    "pb2": ("pb2",),
    "bohb": ("bohb",),
    "even-searches": ("random", "grid", "qmc", "bruteForce"),
    "tpe": ("tpe",),
    "gaussian-processes": ("gp",),
    "cma-es": ("cmaes",),
    "nsga": ("nsga2", "nsga3"),
}
"""What each page explains."""
PLAIN = {"fifo", "plugin"}
"""What there is nothing to explain of, and what others write."""
LONGEST_PAGE = 600
RUNS: dict[str, Callable[[], SimulationResult]] = {
    "asha-promotion": schedulers.run_asha_promotion,
    "hyperband": schedulers.run_hyperband,
    "pb2": schedulers.run_pb2,
    "bohb": searchers.run_bohb,
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TOLERANCE = 3.0
"""Pixels by which another processor's last digits may move something."""


def read(name: str) -> str:
    return (EXPLANATION / f"{name}.md").read_text(encoding="utf-8")


def test_every_algorithm_has_a_page() -> None:
    assert {name for names in PAGES.values() for name in names} == (SEARCHERS | SCHEDULERS.keys()) - PLAIN


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_a_picture_and_names_its_source(name: str) -> None:
    page = read(name)
    pictures = re.findall(r"!\[[^\]]{20,}\]\(\.\./pictures/algorithms/([\w-]+)\.svg\)", page)
    assert pictures
    assert set(pictures) <= DRAWN.keys()
    assert re.search(r"https://\S+|Ray Tune 2", page)
    assert name in {"asha", "population-based-training"} or len(page.split()) <= LONGEST_PAGE


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_what_the_simulation_comes_to(name: str) -> None:
    drawn, kept = DRAWN[name]().render(), (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert NUMBER.sub("", drawn) == NUMBER.sub("", kept), "run python docs/draw_algorithms.py --write, and look at it"
    numbers = zip(NUMBER.findall(drawn), NUMBER.findall(kept), strict=True)
    assert max(abs(float(now) - float(then)) for now, then in numbers) <= TOLERANCE


@pytest.mark.parametrize("name", RUNS)
def test_the_messages_of_an_example_come_from_the_experiment_of_the_picture(name: str) -> None:
    said = {decided.entry.message for decided in RUNS[name]().decisions}
    blocks = re.findall(r"^```\n(.*?)^```$", read(name), re.MULTILINE | re.DOTALL)
    assert blocks
    assert {line for block in blocks for line in block.splitlines()} <= said


def test_the_cells_are_as_empty_as_the_page_says() -> None:
    def count_empty(search: dict[str, object]) -> int:
        trials = simulate({**search, "maxTrials": 64, "seed": 1}, parameters=BOX, epochs=1, slots=8).trials
        return 64 - len({(min(int(8 * x), 7), min(int(8 * y), 7)) for x, y in map(read_point, trials)})

    assert count_empty({"algorithm": "qmc", "qmc": {"sequence": "sobol"}}) == 0
    halton, drawn = (
        count_empty({"algorithm": "qmc", "qmc": {"sequence": "halton"}}),
        count_empty({"algorithm": "random"}),
    )
    assert f"leaves {halton} cells empty, random search {drawn}," in " ".join(read("even-searches").split())


def test_the_losses_of_tpes_example_are_those_of_its_picture() -> None:
    search = {"algorithm": "tpe", "maxTrials": 60, "seed": 4, "tpe": {"startupTrials": 10}}
    losses = [read_value(trial) for trial in simulate(search, parameters=BOX, epochs=1).trials]
    best = sorted(losses[:40])[:4]
    said = ", ".join(f"{loss:.2f}" for loss in best[:3])
    assert f"losses of {said} and {best[3]:.2f}" in " ".join(read("tpe").split())
    assert f"the best has {min(losses[40:]):.2f}" in " ".join(read("tpe").split())
    assert sum(loss < best[3] for loss in losses[40:]) == 5
