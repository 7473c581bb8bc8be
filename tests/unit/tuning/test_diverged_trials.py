"""What becomes of trials whose objective is no finite number, by searcher, as docs/how-to/choose-a-search.md says.

The runner tells NaN in the place of an infinity that nothing could beat; so a searcher sees NaN, the infinity that is
the worst value, and None where the trial failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from typing import Any

import pytest

from podtune.api.tuning.objective import Criterion
from podtune.tuning.searchers.base import Observation
from podtune.tuning.searchers.factory import make_searcher
from tests.unit.tuning.manifests import experiment

SETTINGS: dict[str, Any] = {name: {name: {"populationSize": 4}} for name in ("nsga2", "nsga3")}
BAD, GOOD = {"min": math.inf, "max": -math.inf}, {"min": -math.inf, "max": math.inf}
LEARN = ["tpe", "gp", "cmaes", "nsga2", "nsga3", "bohb"]
LEARN_NOTHING = ["random", "qmc", "grid", "bruteForce"]
Proposals = list[tuple[Any, ...]]


def proposals(algorithm: str, mode: str, diverged: Callable[[], float | None], trials: int = 24) -> Proposals:
    """Proposals, one after the other, in a space of which half diverges.

    Args:
        algorithm: Of the search.
        mode: Of the objective.
        diverged: What is told of a trial that diverges.
        trials: How many.
    """
    scheduler = {"bohb": {"maxTime": 9}} if algorithm == "bohb" else {"fifo": {}}
    spec = experiment(
        objective={"metric": "loss", "mode": mode},
        parameters=[{"name": name, "float": {"min": 0, "max": 1, "step": 0.02}} for name in ("x", "y")],
        search={"algorithm": algorithm, "maxTrials": 100, "seed": 3, **SETTINGS.get(algorithm, {})},
        scheduler=scheduler,
        checkpoints={"store": {"bucket": "tuning"}} if algorithm == "bohb" else {},
    )
    searcher = make_searcher(spec)
    made: Proposals = []
    for number in range(trials):
        proposed = searcher.ask(number, [])
        assert proposed is not None
        x, y = (float(proposed.configuration[name]) for name in ("x", "y"))
        made.append((x, y))
        value: float | None = (x * x + y * y) * (1 if mode == "min" else -1)
        if x > 0.5:
            value = diverged()
        final = algorithm != "bohb"
        searcher.tell(
            Observation(number, proposed.configuration, value, 1, attributes=proposed.attributes, final=final)
        )
        if not final:
            searcher.tell(Observation(number, proposed.configuration, value, 1, attributes=proposed.attributes))
    return made


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("algorithm", LEARN)
def test_a_trial_with_nan_is_passed_over_like_one_that_failed(algorithm: str, mode: str) -> None:
    assert proposals(algorithm, mode, lambda: math.nan) == proposals(algorithm, mode, lambda: None)


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("algorithm", ["tpe", "cmaes", "nsga2", "nsga3", "bohb"])
def test_the_bad_infinity_is_the_worst_value(algorithm: str, mode: str) -> None:
    worst = 1e9 if mode == "min" else -1e9
    assert proposals(algorithm, mode, lambda: BAD[mode]) == proposals(algorithm, mode, lambda: worst)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_gp_takes_the_bad_infinity_for_the_worst_finite_value_so_far(mode: str) -> None:
    diverging = proposals("gp", mode, lambda: BAD[mode])
    passed_over = proposals("gp", mode, lambda: math.nan)
    assert sum(x > 0.5 for x, _ in diverging) < sum(x > 0.5 for x, _ in passed_over)


@pytest.mark.parametrize("algorithm", ["tpe", "gp", "cmaes", "bohb"])
def test_those_that_learn_keep_away_from_where_the_bad_infinity_comes(algorithm: str) -> None:
    late = proposals(algorithm, "min", lambda: math.inf, trials=60)[30:]
    assert sum(x > 0.5 for x, _ in late) < len(late) / 4


@pytest.mark.parametrize("algorithm", LEARN_NOTHING)
def test_those_that_learn_nothing_are_not_moved(algorithm: str) -> None:
    told = [proposals(algorithm, "min", repeat(value).__next__) for value in (math.nan, math.inf, -math.inf, None, 1.0)]
    assert all(other == told[0] for other in told)


@pytest.mark.parametrize(
    ("mode", "value", "told"),
    [
        ("min", math.inf, math.inf),
        ("min", -math.inf, math.nan),
        ("max", math.inf, math.nan),
        ("max", -math.inf, -math.inf),
        ("max", math.nan, math.nan),
        ("min", -1e308, -1e308),
    ],
)
def test_an_infinity_that_nothing_could_beat_is_no_number(mode: str, value: float, told: float) -> None:
    criterion = Criterion.model_validate({"metric": "loss", "mode": mode})
    assert repr(criterion.make_comparable(value)) == repr(told)
    assert criterion.is_better(value, None) is math.isfinite(value)
    assert not criterion.is_better(GOOD[mode], 1.0)
    assert criterion.is_better(1.0, GOOD[mode]), "it does not stay the best, wherever it comes from"
