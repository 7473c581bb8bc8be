"""What simulated trials report."""

from __future__ import annotations

import csv
import io
import math
from itertools import pairwise
from typing import Any

import pytest

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search_space import Parameter, parse_value
from podtune.simulation.curves.base import CurveError, LearningCurve
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.generate import write_curves
from podtune.simulation.curves.position import compute_position
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.curves.table import MeasuredCurves, read_curves
from podtune.simulation.training_state import TrainingState, advance, resume_training, start_training
from tests.unit.tuning.manifests import experiment, parameters

RATE = {"name": "rate", "float": {"min": 0.001, "max": 0.1, "scale": "log"}}
WIDTH = {"name": "width", "int": {"min": 10, "max": 110}}
KIND = {"name": "kind", "choice": {"values": ["a", "b", "c"]}}
LOSS = Objective(metric="loss", mode="min")


def unit_cube(dimensions: int) -> list[Parameter]:
    return parameters(*({"name": f"x{i}", "float": {"min": 0, "max": 1}} for i in range(dimensions)))


@pytest.mark.parametrize(
    ("name", "dimensions", "where"),
    [
        ("sphere", 3, [0.5] * 3),
        ("ackley", 3, [0.5] * 3),
        ("rastrigin", 3, [0.5] * 3),
        ("rosenbrock", 4, [(1 + 2.048) / 4.096] * 4),
        ("styblinski-tang", 4, [(5 - 2.9035340276126953) / 10] * 4),
        ("branin", 2, [(math.pi + 5) / 15, 2.275 / 15]),
        ("hartmann6", 6, [0.2016895, 0.1500107, 0.4768740, 0.2753324, 0.3116516, 0.6573005]),
    ],
)
def test_a_function_is_least_where_the_literature_says(name: str, dimensions: int, where: list[float]) -> None:
    function = CURVE_FUNCTIONS[name]
    assert function.evaluate(where) == pytest.approx(function.compute_minimum(dimensions), abs=1e-6)
    assert function.evaluate([share + 0.01 for share in where]) > function.compute_minimum(dimensions)


def test_every_function_is_covered() -> None:
    assert len(CURVE_FUNCTIONS) == 7


@pytest.mark.parametrize(
    ("manifest", "value", "share"),
    [
        (RATE, 0.001, 0.0),
        (RATE, 0.01, 0.5),
        (RATE, 0.1, 1.0),
        (RATE, 7.0, 1.0),
        (WIDTH, 60, 0.5),
        (KIND, "b", 0.5),
        (KIND, "c", 1.0),
        (KIND, None, 0.5),
        ({"name": "fixed", "int": {"min": 3, "max": 3}}, 3, 0.5),
        ({"name": "bell", "normal": {"mean": 5, "stddev": 2}}, 5, 0.5),
        ({"name": "bell", "normal": {"mean": 5, "stddev": 2}}, 7, 0.841345),
        ({"name": "bell", "normal": {"mean": 5, "stddev": 2, "min": 5}}, 7, 0.682689),
        ({"name": "bell", "normal": {"mean": 5, "stddev": 2, "max": 7}}, 9, 1.0),
        ({"name": "size", "logNormal": {"mean": 0, "stddev": 1}}, 1, 0.5),
        ({"name": "size", "logNormal": {"mean": 0, "stddev": 1, "min": 1}}, math.e, 0.682689),
    ],
)
def test_a_value_lies_in_its_domain(manifest: dict[str, Any], value: Any, share: float) -> None:
    assert compute_position(parameters(manifest)[0], value) == pytest.approx(share, abs=1e-6)


class TestSynthetic:
    def curves(self, mode: str = "min", **options: Any) -> SyntheticCurves:
        objective = Objective.model_validate({"metric": "loss", "mode": mode})
        settings = {"iterations": 27, "seconds": 60.0, "seed": 0, **options}
        return SyntheticCurves(CURVE_FUNCTIONS["branin"], unit_cube(2), objective, **settings)

    def test_training_ends_up_at_the_function(self) -> None:
        curve = self.curves().build_curve({"x0": 0.25, "x1": 0.75}, 0)
        assert curve.length == 27
        assert curve.compute_metrics(27)["loss"] == pytest.approx(CURVE_FUNCTIONS["branin"].evaluate([0.25, 0.75]))

    def test_maximising_turns_it_round(self) -> None:
        down, up = (self.curves(mode).build_curve({"x0": 0.25, "x1": 0.75}, 0) for mode in ("min", "max"))
        assert [up.compute_metrics(i)["loss"] for i in (1, 9, 27)] == [
            -down.compute_metrics(i)["loss"] for i in (1, 9, 27)
        ]
        assert self.curves("max").optimum == -self.curves("min").optimum

    def test_without_noise_it_only_gets_better_and_slower(self) -> None:
        curve = self.curves(noise=0.0).build_curve({"x0": 0.5427, "x1": 0.1517}, 0)
        values = [curve.compute_metrics(i)["loss"] for i in range(1, 28)]
        gains = [a - b for a, b in pairwise(values)]
        assert all(gain > 0 for gain in gains)
        assert gains == sorted(gains, reverse=True)

    def test_noise_is_the_trials_own_and_gone_in_the_end(self) -> None:
        one, other = (self.curves().build_curve({"x0": 0.25, "x1": 0.75}, trial) for trial in (0, 1))
        assert one.compute_metrics(3) != other.compute_metrics(3)
        assert one.compute_metrics(3) == one.compute_metrics(3)
        assert one.compute_metrics(27) == other.compute_metrics(27)

    def test_an_early_look_may_mislead(self) -> None:
        curves = self.curves(noise=0.0)
        trained = [curves.build_curve({"x0": i / 7, "x1": j / 7}, 0) for i in range(8) for j in range(8)]
        early = sorted(range(64), key=lambda i: trained[i].compute_metrics(1)["loss"])
        late = sorted(range(64), key=lambda i: trained[i].compute_metrics(27)["loss"])
        assert early[:16] != late[:16]
        assert len(set(early[:16]) & set(late[:16])) > 8  # but it tells something

    def test_several_objectives_are_at_odds(self) -> None:
        both = {"metric": "loss", "mode": "min", "others": [{"metric": "score", "mode": "max"}]}
        function = CURVE_FUNCTIONS["sphere"]
        curves = SyntheticCurves(
            function, unit_cube(2), Objective.model_validate(both), iterations=3, seconds=1, seed=0
        )
        at_best = curves.build_curve({"x0": 0.5, "x1": 0.5}, 0).compute_metrics(3)
        assert at_best["loss"] == 0
        assert at_best["score"] == -function.evaluate([0.0, 0.0])
        assert curves.build_curve({"x0": 0.0, "x1": 0.0}, 0).compute_metrics(3)["score"] == 0

    def test_no_optimum_is_better_than_the_functions_least_value(self) -> None:
        curves = self.curves()
        assert curves.optimum == pytest.approx(0.397887, abs=1e-6)
        drawn = [curves.build_curve({"x0": i / 9, "x1": j / 9}, 0) for i in range(10) for j in range(10)]
        assert min(curve.compute_metrics(27)["loss"] for curve in drawn) >= curves.optimum

    def test_a_space_with_too_few_parameters_is_refused(self) -> None:
        with pytest.raises(
            CurveError, match="hartmann6 needs 6 parameters, the experiment has 2 to search; choose another"
        ):
            SyntheticCurves(CURVE_FUNCTIONS["hartmann6"], unit_cube(2), LOSS, iterations=1, seconds=1, seed=0)


TABLE = """rate,width,kind,epoch,loss,accuracy,seconds
0.01,60,a,1,0.9,0.1,10
0.01,60,a,2,0.5,0.4,11
0.01,60,b,2,0.4,0.4,13
0.01,60,b,1,0.8,0.2,12
0.1,110,b,1,nan,0.2,
"""


def table(text: str = TABLE) -> MeasuredCurves:
    return read_curves(text.splitlines(), parameters(RATE, WIDTH, KIND), LOSS, time="epoch", seconds=60)


class TestTable:
    def test_reads_the_curve_of_each_configuration_in_the_order_of_time(self) -> None:
        curves = table()
        assert len(curves) == 3
        curve = curves.build_curve({"rate": 0.01, "width": 60, "kind": "b"}, 0)
        assert [dict(curve.compute_metrics(i)) for i in (1, 2)] == [
            {"epoch": 1, "loss": 0.8, "accuracy": 0.2},
            {"epoch": 2, "loss": 0.4, "accuracy": 0.4},
        ]
        assert [curve.compute_seconds(1), curve.compute_seconds(2)] == [12, 13]

    def test_the_nearest_configuration_stands_for_one_that_was_not_measured(self) -> None:
        curve = table().build_curve({"rate": 0.08, "width": 100, "kind": "b"}, 0)
        assert math.isnan(curve.compute_metrics(1)["loss"])
        assert curve.compute_seconds(1) == 60
        assert table().build_curve({"rate": 0.08, "width": 70, "kind": "a"}, 0).compute_seconds(1) == 10

    def test_the_optimum_is_the_best_value_anywhere(self) -> None:
        assert table().optimum == 0.4

    @pytest.mark.parametrize(
        ("old", "new", "problem"),
        [
            ("loss", "cost", "the curves lack the column loss; they have rate, width, kind, epoch, cost"),
            ("epoch", "step", "the curves lack the column epoch"),
            ("0.9,0.1", "x,0.1", "line 2: loss is 'x', which is no number"),
            ("0.9,0.1", ",0.1", "line 2: loss is empty; complete the line, or remove it"),
            ("0.01,60,a,2", "0.01,60,z,2", "line 3: 'z' is not one of the values of parameter 'kind'; correct it"),
        ],
    )
    def test_a_mistake_is_named(self, old: str, new: str, problem: str) -> None:
        with pytest.raises(CurveError, match=problem):
            table(TABLE.replace(old, new))

    def test_only_what_is_searched_needs_a_column(self) -> None:
        space = parameters(RATE, {"name": "kind", "fixed": {"value": "a"}}, {"name": "twice", "expression": "2 * rate"})
        curves = read_curves(TABLE.splitlines(), space, LOSS, time="epoch", seconds=60)
        assert dict(curves.build_curve({"rate": 0.1, "kind": "a", "twice": 0.2}, 0).compute_metrics(1)).keys() == {
            "width", "epoch", "loss", "accuracy"
        }  # fmt: skip

    @pytest.mark.parametrize(("kind", "loss"), [("a", 0.5), ("b", 0.4)])
    def test_lines_with_another_value_of_what_is_fixed_are_of_other_experiments(self, kind: str, loss: float) -> None:
        space = parameters(RATE, WIDTH, {"name": "kind", "fixed": {"value": kind}})
        curves = read_curves(TABLE.splitlines(), space, LOSS, time="epoch", seconds=60)
        assert curves.optimum == loss
        curve = curves.build_curve({"rate": 0.01, "width": 60, "kind": kind}, 0)
        assert [curve.compute_metrics(i)["loss"] for i in range(1, curve.length + 1)][-1] == loss

    @pytest.mark.parametrize(("value", "lines"), [(0.01, 4), (1e-1, 1)])
    def test_fixed_numbers_are_compared_as_numbers(self, value: float, lines: int) -> None:
        space = parameters({"name": "rate", "fixed": {"value": value}}, WIDTH, KIND)
        written = TABLE.replace("0.01,", "1.0e-2,")
        curves = read_curves(written.splitlines(), space, LOSS, time="epoch", seconds=60)
        assert sum(curve.length for curve in curves) == lines

    def test_a_table_without_the_fixed_value_is_refused(self) -> None:
        space = parameters(RATE, WIDTH, {"name": "kind", "fixed": {"value": "c"}})
        with pytest.raises(CurveError, match="no line besides the header with the fixed kind"):
            read_curves(TABLE.splitlines(), space, LOSS, time="epoch", seconds=60)

    def test_computed_values_follow_from_the_others(self) -> None:
        """Whatever stands in their column, and though a condition asks for them."""
        wide = {"name": "depth", "int": {"min": 1, "max": 3}, "when": {"kind": ["b"]}}
        space = parameters(RATE, WIDTH, KIND, {"name": "twice", "expression": "2 * rate"}, wide)
        written = [f"{line},twice,depth" if line.startswith("rate") else f"{line},?," for line in TABLE.splitlines()]
        curves = read_curves(written, space, LOSS, time="epoch", seconds=60)
        proposed: dict[str, float | int | str | bool] = {"rate": 0.01, "width": 60, "kind": "a", "twice": 0.02}
        assert curves.build_curve(proposed, 0).compute_metrics(2)["loss"] == 0.5

    def test_an_iteration_that_is_there_twice_is_refused(self) -> None:
        with pytest.raises(CurveError, match="line 3: epoch 1 of these parameters was there already"):
            table(TABLE.replace("0.01,60,a,2", "0.01,60,a,1"))

    def test_an_empty_file_is_refused(self) -> None:
        with pytest.raises(CurveError, match="no line besides the header"):
            table(TABLE.splitlines()[0])

    def test_generated_curves_can_be_read_back(self) -> None:
        spec = experiment(objective={"metric": "loss", "mode": "min"})
        curves = SyntheticCurves(
            CURVE_FUNCTIONS["ackley"], spec.parameters, spec.objective, iterations=5, seconds=30, seed=1, noise=0
        )
        file = io.StringIO()
        write_curves(file, curves, spec, time="epoch", count=20, seed=3)
        rows = list(csv.DictReader(file.getvalue().splitlines()))
        assert len(rows) == 20 * 5
        measured = read_curves(file.getvalue().splitlines(), spec.parameters, spec.objective, time="epoch", seconds=1)
        assert len(measured) == 20
        written = {p.name: rows[0][p.name] for p in spec.parameters}
        configuration = {p.name: parse_value(p, written[p.name]) for p in spec.parameters}
        assert measured.build_curve(configuration, 0).compute_metrics(5)["loss"] == pytest.approx(
            curves.build_curve(configuration, 0).compute_metrics(5)["loss"], rel=1e-5
        )


class Ramp(LearningCurve):
    """Falls from 10 to its end in ten iterations."""

    def __init__(self, end: float) -> None:
        self.end = end

    @property
    def length(self) -> int:
        return 10

    def compute_metrics(self, iteration: int) -> dict[str, float]:
        return {"loss": 10 + (self.end - 10) * iteration / 10}

    def compute_seconds(self, iteration: int) -> float:
        return 1.0


class TestTraining:
    def train(self, training: TrainingState, curve: LearningCurve, iterations: int) -> TrainingState:
        for _ in range(iterations):
            training, _ = advance(training, curve, "loss")
        return training

    def test_goes_along_the_curve(self) -> None:
        training, reported = advance(start_training({"x": 1}), Ramp(0), "loss")
        assert (training.iteration, reported) == (1, {"loss": 9})

    def test_goes_on_from_a_checkpoint_of_the_same_configuration_along_the_curve(self) -> None:
        checkpoint = self.train(start_training({"x": 1}), Ramp(0), 4)
        assert self.train(resume_training(checkpoint, {"x": 1}), Ramp(0), 6).value == 0

    def test_a_clone_keeps_what_its_donor_has_learnt_and_ends_where_its_own_configuration_leads(self) -> None:
        donor = self.train(start_training({"x": 1}), Ramp(0), 5)
        clone, reported = advance(resume_training(donor, {"x": 2}), Ramp(2), "loss")
        assert donor.value == 5
        assert 2 < clone.value < 5
        assert reported["loss"] == clone.value
        assert self.train(clone, Ramp(2), 4).value == pytest.approx(2)

    def test_a_clone_with_a_bad_configuration_forgets(self) -> None:
        donor = self.train(start_training({"x": 1}), Ramp(0), 5)
        assert self.train(resume_training(donor, {"x": 2}), Ramp(20), 1).value > donor.value
