"""The benchmark of the tuner tells losses from chance, and runs."""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from e2e.bench.figures import compare, machine, read
from e2e.bench.tuner import __main__ as command
from e2e.bench.tuner import cost, figures, optuna_gp, quality, scheduling
from e2e.bench.tuner.problems import NAMES, problem
from e2e.bench.tuner.quality import Pairing
from e2e.bench.tuner.searching import optunas, ours


def values(seed: int, mean: float = 0.0) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(mean, 1.0) for _ in range(30)]


def pairing(name: str, worse_by: float) -> Pairing:
    mine, theirs = values(1, worse_by), values(2)
    return Pairing("tpe", name, 60, mine, theirs, quality.loss_probability(mine, theirs))


def test_a_loss_is_found_and_a_gain_is_none() -> None:
    assert quality.loss_probability(values(1, 1.0), values(2)) < 0.01
    assert quality.loss_probability(values(1, -1.0), values(2)) > 0.99
    assert quality.loss_probability(values(1), values(1)) == 1.0


def test_among_many_comparisons_only_a_clear_loss_counts() -> None:
    even = [pairing(f"even-{place}", 0.0) for place in range(20)]
    clear, faint = pairing("clear", 3.0), Pairing("tpe", "faint", 60, [], [], 0.03)
    assert quality.losses([*even, clear, faint]) == [clear]
    assert quality.losses([faint]) == [faint]
    assert quality.losses(even) == []


def test_wins_are_counted() -> None:
    found = Pairing("tpe", "x", 60, [1, 2, 3], [2, 2, 1], 0.5)
    assert found.wins == (1, 1)
    assert found.medians == (2, 2)


@pytest.mark.parametrize(
    ("ours", "optunas", "holds"),
    [
        ([10.0, 20.0], [10.0, 20.0], True),
        ([10.0, 60.0], [10.0, 20.0], False),
        ([1.0, 1.2], [1.0, 1.0], True),  # within what timings are off by
        ([50.0, 51.0], [], True),
        ([50.0, 500.0], [], False),
    ],
)
def test_proposals_may_slow_down_as_optunas_do(ours: list[float], optunas: list[float], holds: bool) -> None:
    assert cost.Asking("tpe", [1000, 10000], ours, optunas).grows_no_faster is holds


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_is_searched_by_both(name: str) -> None:
    least = problem(name).optimum
    for search in (ours, optunas):
        found = search(name, "random", 0, 12)
        assert found >= least - 1e-9
        assert found == search(name, "random", 0, 12)


def test_what_optuna_found_with_gaussian_processes_is_of_the_present_budgets() -> None:
    recorded = json.loads(quality.RECORDED.read_text(encoding="utf-8"))
    assert recorded["budgets"] == {name: quality.budget("gp", name) for name in NAMES}
    assert {len(found) for found in recorded["values"].values()} == {30}


def test_a_contender_is_simulated_on_real_curves() -> None:
    regrets, trials = scheduling.simulate("ASHA", 0)
    assert len(regrets) == len(scheduling.HOURS)
    assert regrets == sorted(regrets, reverse=True)
    assert trials > 50


def test_the_engine_is_timed_to_the_last_trial() -> None:
    engine = cost.run_engine(20)
    assert engine.trials == 20
    assert engine.rate == pytest.approx(20 / engine.seconds)
    assert 0 < engine.processor_seconds <= engine.seconds * 1.5


def found(median: float, busy: float) -> dict[str, Any]:
    """A benchmark's figures, a few of them."""
    engine = cost.Engine(10, 2.0, busy, 5000.0)
    asking = cost.Asking("tpe", [1000, 10000], [5.0, 50.0], [6.0, 60.0])
    others = {"Ray Tune": None, "Syne Tune": {"trials": 10, "seconds": 0.1}}
    parts = {
        "quality": [asdict(Pairing("tpe", "branin", 60, [median] * 3, [0.5] * 3, 0.7))],
        "schedulers": {"hours": [1, 3], "contenders": [asdict(scheduling.Regret("ASHA", [0.02, median], [], 9))]},
        "cost": {"engine": asdict(engine), "others": others, "proposals": [asdict(asking)]},
    }
    return {name: {"machine": machine(), "figures": part, "broken": []} for name, part in parts.items()}


def test_what_is_found_is_compared_with_what_was_committed() -> None:
    before, now = figures.headlines(found(0.4, 1.0)), figures.headlines(found(0.2, 3.0))
    changes = {change.name: change for change in compare(before, now)}
    assert changes["median of tpe on branin"].ratio == pytest.approx(0.5)
    assert changes["regret of ASHA after 3 h, %"].now == pytest.approx(20)
    assert changes["engine, processor ms a trial"].ratio == pytest.approx(3)
    assert changes["proposal of tpe after 10,000 trials, ms"].before == 50.0
    assert "Ray Tune, trials a second" not in changes
    part = {name: figure for name, figure in found(0.4, 1.0).items() if name == "cost"}
    assert {change.ratio for change in compare(before, figures.headlines(part))} == {1.0}
    assert figures.headlines({}) == {}


def test_a_part_that_is_run_alone_leaves_the_others_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tuner.json"
    file.write_text(json.dumps({"cost": found(0.4, 1.0)["cost"]}))
    monkeypatch.setattr(command, "COMMITTED", file)
    arguments = ["tuner", "quality", "--algorithms", "cmaes", "--problems", "sphere", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--json", str(file)])
    assert command.main() == 0
    written = read(file)
    assert written.keys() == {"cost", "quality"}
    assert written["cost"] == found(0.4, 1.0)["cost"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert command.main() == 0
    assert re.search(r"median of cmaes on sphere .* 1\.00", capsys.readouterr().out)


def test_the_committed_figures_break_no_promise() -> None:
    committed = read(figures.COMMITTED)
    assert committed.keys() == {"quality", "schedulers", "cost"}
    assert [part["broken"] for part in committed.values()] == [[], [], []]
    assert set(committed["cost"]["machine"]) == {"date", "processors", "python"}


def test_a_recording_that_was_interrupted_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    searched: list[str] = []

    def search(_: object, algorithm: str, problems: Sequence[str], seeds: int) -> dict[str, list[float]]:
        if len(searched) == 2:
            raise KeyboardInterrupt
        searched.extend(problems)
        return {problem: [0.5] * seeds for problem in problems}

    for module in (optuna_gp, quality):
        monkeypatch.setattr(module, "RECORDED", tmp_path / "recorded.json")
    monkeypatch.setattr(optuna_gp, "in_processes", search)
    with pytest.raises(KeyboardInterrupt):
        optuna_gp.record(3)
    monkeypatch.setattr(quality, "in_processes", lambda *_: {name: [0.5] * 3 for name in NAMES})
    with pytest.raises(ValueError, match=r"recorded.json lacks rosenbrock; go on: python -m e2e.bench.tuner.optuna_gp"):
        quality.compare(["gp"], NAMES[:3], 3)
    assert quality.compare(["gp"], NAMES[:2], 3)[1].wins == (0, 0)
    done, searched = searched, ["", "", ""]
    optuna_gp.record(3)
    assert [*done, *searched[3:]] == list(NAMES)
    searched = ["", "", ""]
    optuna_gp.record(3)
    assert searched == ["", "", ""], "all is recorded"
    optuna_gp.record(4)
    assert searched[3:] == list(NAMES), "with too few seeds"
