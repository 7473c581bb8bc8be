from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.tuning.schedulers.base import CONTINUE, Metrics, RecordError, SchedulerAction
from podtune.tuning.stoppers.factory import make_trial_stopper
from podtune.tuning.stoppers.trial import TrialStopper
from tests.unit.tuning.manifests import experiment


def stopper(*rules: dict[str, Any], metrics: dict[str, float] | None = None, mode: str = "max") -> TrialStopper:
    stop = {"trial": list(rules), "metrics": metrics or {}}
    return make_trial_stopper(experiment(objective={"metric": "accuracy", "mode": mode}, stop=stop))


def stops(made: TrialStopper, *results: Metrics, elapsed: float = 0.0) -> list[bool]:
    """Which of a trial's results stop it."""
    return [made.on_result(0, result, elapsed).action is SchedulerAction.STOP for result in results]


def values(*numbers: float) -> list[Metrics]:
    return [{"accuracy": number} for number in numbers]


class TestThresholds:
    @pytest.mark.parametrize(
        ("value", "stop"), [(26, False), (26.999, False), (27, True), (28, True), (math.inf, True), (math.nan, False)]
    )
    def test_at_least_the_value_is_enough(self, value: float, stop: bool) -> None:
        assert stops(stopper(metrics={"epoch": 27}), {"epoch": value}) == [stop]
        assert stops(stopper({"metrics": {"epoch": 27}}), {"epoch": value}) == [stop]

    @pytest.mark.parametrize(("value", "stop"), [(0.2, False), (0.1, True), (0.05, True), (-math.inf, True)])
    def test_an_objective_to_be_minimised_has_to_fall_to_it(self, value: float, stop: bool) -> None:
        assert stops(stopper(metrics={"accuracy": 0.1}, mode="min"), {"accuracy": value}) == [stop]

    def test_other_metrics_rise_whatever_the_objective_does(self) -> None:
        assert stops(stopper(metrics={"epoch": 27}, mode="min"), {"epoch": 3}, {"epoch": 27}) == [False, True]

    @pytest.mark.parametrize("metrics", [{}, {"other": 99}, {"epoch": "27"}])
    def test_a_result_without_the_number_goes_on(self, metrics: Metrics) -> None:
        assert stopper(metrics={"epoch": 27}).on_result(0, metrics, 0.0) == CONTINUE

    def test_the_reason_holds_the_numbers(self) -> None:
        decision = stopper(metrics={"epoch": 27}).on_result(0, {"epoch": 28}, 0.0)
        assert decision.message == "stopped: epoch 28 is at least 27, as stop.metrics asks"
        assert decision.inputs == {"metric": "epoch", "value": 28, "threshold": 27}
        decision = stopper({"metrics": {"accuracy": 0.1}}, mode="min").on_result(0, {"accuracy": 0.0999999999}, 0.0)
        assert decision.message == "stopped: accuracy 0.0999999999 is at most 0.1, as stop.trial[0].metrics asks"

    def test_without_rules_nothing_stops(self) -> None:
        assert stopper().on_result(0, {"epoch": 10**9}, 1e9) == CONTINUE
        assert stopper().on_time(0, 1e9) == CONTINUE
        assert stopper().find_deadline(0, 0.0) is None
        assert stopper().record(0) == {}


class TestIterations:
    def test_so_many_are_enough(self) -> None:
        results = [{"training_iteration": step} for step in (8, 9, 10)]
        assert stops(stopper({"iterations": 10}), *results) == [False, False, True]

    def test_a_skipped_one_is_made_up_for(self) -> None:
        assert stops(stopper({"iterations": 10}), {"training_iteration": 12}) == [True]

    def test_the_reason_holds_the_numbers(self) -> None:
        decision = stopper({"iterations": 10}).on_result(0, {"training_iteration": 12}, 0.0)
        assert decision.message == "stopped: iteration 12 is at least 10, as stop.trial[0].iterations asks"


class TestTime:
    def test_a_result_after_it_stops(self) -> None:
        made = stopper({"time": "1h"})
        assert made.on_result(0, {}, 3599.9) == CONTINUE
        assert made.on_result(0, {}, 3600.0).message == (
            "stopped: 3600 s of training are at least 3600 s, as stop.trial[0].time asks"
        )

    def test_no_result_is_needed(self) -> None:
        made = stopper({"time": "1m"})
        assert made.find_deadline(0, 12.5) == 60.0
        assert made.on_time(0, 59.0) == CONTINUE
        assert made.on_time(0, 60.0).action is SchedulerAction.STOP

    def test_the_earliest_counts(self) -> None:
        assert stopper({"time": "1m"}, {"any": [{"time": "30s"}, {"iterations": 3}]}).find_deadline(0, 0.0) == 30.0


class TestPlateau:
    def plateau(self, **settings: Any) -> TrialStopper:
        return stopper({"plateau": {"window": 3, "tolerance": 0.1, **settings}})

    def test_values_close_together_stop(self) -> None:
        assert stops(self.plateau(), *values(0.1, 0.5, 0.6, 0.6, 0.6)) == [False, False, False, True, True]

    def test_a_tolerance_of_nothing_wants_no_change_at_all(self) -> None:
        results = values(0.1, 0.1, math.nextafter(0.1, 1), 0.3, 0.3, 0.3)
        assert stops(self.plateau(tolerance=0), *results) == [False, False, False, False, False, True]

    def test_the_grace_counts_results(self) -> None:
        assert stops(self.plateau(grace=5), *values(0.1, 0.1, 0.1, 0.1, 0.1)) == [False] * 4 + [True]

    def test_a_plateau_short_of_the_threshold_goes_on(self) -> None:
        assert stops(self.plateau(threshold=0.5), *values(0.4, 0.4, 0.4, 0.5)) == [False, False, False, True]
        falling = stopper({"plateau": {"window": 2, "tolerance": 0.2, "threshold": 0.3}}, mode="min")
        assert stops(falling, *values(0.4, 0.4, 0.3)) == [False, False, True]

    def test_another_metric_may_be_looked_at(self) -> None:
        made = self.plateau(metric="loss")
        results = [{"accuracy": 0.5, "loss": loss} for loss in (9, 1, 1, 1)]
        assert stops(made, *results) == [False, False, False, True]

    def test_results_without_the_metric_are_passed_over(self) -> None:
        results: list[dict[str, float | str]] = [
            {"accuracy": 0.5},
            {},
            {"accuracy": "0.5"},
            {"accuracy": 0.5},
            {"accuracy": 0.5},
        ]
        assert stops(self.plateau(), *results) == [False, False, False, False, True]

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
    def test_what_is_no_finite_number_is_no_plateau_while_it_is_in_the_window(self, odd: float) -> None:
        assert stops(self.plateau(), *values(odd, 0.1, 0.1, 0.1)) == [False, False, False, True]
        assert stops(self.plateau(), *values(odd, odd, odd)) == [False, False, False]
        assert stops(self.plateau(), *values(odd, -odd, odd)) == [False, False, False]

    def test_huge_numbers_do_no_harm(self) -> None:
        assert stops(self.plateau(), *values(1.7e308, -1.7e308, 1.7e308)) == [False, False, False]

    def test_trials_have_plateaus_of_their_own(self) -> None:
        made = self.plateau()
        for _ in range(2):
            made.on_result(0, {"accuracy": 0.5}, 0.0)
        assert made.on_result(1, {"accuracy": 0.5}, 0.0) == CONTINUE
        assert made.on_result(0, {"accuracy": 0.5}, 0.0).action is SchedulerAction.STOP

    def test_the_reason_holds_the_numbers(self) -> None:
        made = self.plateau()
        decision = [made.on_result(0, result, 0.0) for result in values(0.5, 0.6, 0.7)][-1]
        assert decision.message == (
            "stopped: the last 3 values of accuracy have a standard deviation of 0.0816497, at most 0.1, "
            "as stop.trial[0].plateau asks"
        )
        assert decision.inputs["deviation"] == pytest.approx(math.sqrt(0.02 / 3))


class TestExpression:
    def test_it_is_about_the_last_result(self) -> None:
        made = stopper({"expression": "loss > 10 or isnan(loss)"})
        results = [{"loss": 3.0}, {"loss": 11.0}, {"loss": math.nan}]
        assert stops(made, *results) == [False, True, True]

    def test_names_that_are_no_words_can_be_said(self) -> None:
        assert stops(stopper({"expression": 'value("val/loss") > 1'}), {"val/loss": 2.0}) == [True]

    def test_a_result_that_it_has_no_value_for_goes_on_and_it_says_so(self) -> None:
        made = stopper({"iterations": 9}, {"any": [{"expression": "acuracy < 0.2"}, {"time": "1h"}]})
        assert made.on_result(0, {"accuracy": 0.1}, 0.0) == CONTINUE
        assert made.find_problem(0, {"accuracy": 0.1}) == (
            "stop.trial[1].any[0].expression is passed over: there is no 'acuracy' here; known names: accuracy"
        )
        assert made.find_problem(0, {"acuracy": 0.1}) == ""

    def test_the_reason_holds_the_numbers(self) -> None:
        decision = stopper({"expression": "loss / 2 > limit"}).on_result(0, {"loss": 24.0, "limit": 3, "x": 1}, 0.0)
        assert decision.message == (
            "stopped: loss / 2 > limit holds (loss 24, limit 3), as stop.trial[0].expression asks"
        )
        assert decision.inputs == {"expression": "loss / 2 > limit", "loss": 24.0, "limit": 3}


class TestGroups:
    def test_all_have_to_hold(self) -> None:
        made = stopper({"all": [{"iterations": 2}, {"expression": "accuracy < 0.2"}]})
        results = [(1, 0.1), (2, 0.3), (3, 0.1)]
        assert stops(made, *[{"training_iteration": step, "accuracy": value} for step, value in results]) == [
            False,
            False,
            True,
        ]

    def test_one_of_any_is_enough(self) -> None:
        made = stopper({"any": [{"iterations": 2}, {"expression": "accuracy < 0.2"}]})
        assert stops(made, {"accuracy": 0.1}, {"training_iteration": 2}, {"accuracy": 0.3}) == [True, True, False]

    def test_the_reasons_of_all_are_told(self) -> None:
        made = stopper({"iterations": 99}, {"all": [{"iterations": 2}, {"metrics": {"accuracy": 0.9}}]})
        decision = made.on_result(0, {"training_iteration": 2, "accuracy": 0.95}, 0.0)
        assert decision.message == (
            "stopped: iteration 2 is at least 2 and accuracy 0.95 is at least 0.9, as stop.trial[1].all asks"
        )
        assert decision.inputs["1.value"] == 0.95

    def test_time_alone_completes_a_group(self) -> None:
        """The expression keeps holding, or not, until the next result."""
        made = stopper({"all": [{"time": "1h"}, {"time": "2h"}, {"expression": "accuracy < 0.2"}]})
        assert made.find_deadline(0, 0.0) is None, "there is no result yet"
        assert made.on_result(0, {"accuracy": 0.1, "other": 1}, 60.0) == CONTINUE
        assert made.find_deadline(0, 60.0) == 7200.0
        assert made.find_deadline(0, 3700.0) == 7200.0
        assert made.on_time(0, 7199.0) == CONTINUE
        assert "accuracy 0.1" in made.on_time(0, 7200.0).message
        assert made.on_result(0, {"accuracy": 0.5}, 5000.0) == CONTINUE
        assert made.find_deadline(0, 5000.0) is None
        assert made.on_time(0, 9000.0) == CONTINUE

    def test_of_several_rules_the_first_is_the_reason(self) -> None:
        made = stopper({"iterations": 2}, {"expression": "training_iteration > 0"}, metrics={"epoch": 1})
        assert "stop.metrics" in made.on_result(0, {"training_iteration": 2, "epoch": 1}, 0.0).message
        assert "stop.trial[0].iterations" in made.on_result(0, {"training_iteration": 2}, 0.0).message


RULES: list[dict[str, Any]] = [
    {"iterations": 12},
    {"time": "20s"},
    {"metrics": {"loss": 5}},
    {"plateau": {"window": 3, "tolerance": 0.05, "grace": 5}},
    {"plateau": {"window": 6, "tolerance": 0.2, "metric": "loss", "threshold": 2}},
    {"expression": "loss > 4 and accuracy < 0.5"},
]
ITEMS = st.sampled_from(RULES)
GROUPS = st.lists(ITEMS, min_size=2, max_size=3)
ANY_RULES = st.lists(
    st.one_of(ITEMS, GROUPS.map(lambda parts: {"all": parts}), GROUPS.map(lambda parts: {"any": parts})),
    min_size=1,
    max_size=3,
)
NUMBERS = st.one_of(
    st.floats(0, 1).map(lambda x: round(x, 2)), st.just(math.nan), st.integers(0, 8), st.just("n/a"), st.booleans()
)
RESULTS = st.dictionaries(st.sampled_from(["accuracy", "loss"]), NUMBERS)
EVENTS = st.lists(st.tuples(st.integers(0, 2), st.one_of(RESULTS, st.none()), st.floats(0, 4)), min_size=1, max_size=40)


def play(made: TrialStopper, events: list[tuple[int, Metrics | None, float]], start: dict[int, Any]) -> list[Any]:
    """What a stopper says to results and to time passing; `start` holds each trial's iteration and time."""
    said = []
    for trial, result, seconds in events:
        step, elapsed = start.get(trial, (0, 0.0))
        elapsed += seconds
        if result is None:
            said.append((made.on_time(trial, elapsed), made.find_deadline(trial, elapsed)))
        else:
            step += 1
            said.append((made.on_result(trial, {**result, "training_iteration": step}, elapsed), None))
        start[trial] = (step, elapsed)
    return said


@settings(deadline=None)
@given(ANY_RULES, EVENTS, st.data())
def test_cut_anywhere_a_restored_stopper_goes_on_as_the_uncut_one(
    rules: list[dict[str, Any]], events: list[Any], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(events)))
    order = data.draw(st.permutations(range(3)))
    uncut, before, after = stopper(*rules), stopper(*rules), stopper(*rules)
    whole = play(uncut, events, {})
    start: dict[int, Any] = {}
    play(before, events[:cut], start)
    for trial in order:
        after.restore(trial, before.record(trial))
        assert after.record(trial) == before.record(trial)
    assert play(after, events[cut:], start) == whole[cut:]
    for trial in range(3):
        assert after.record(trial) == uncut.record(trial)


@given(ANY_RULES, EVENTS)
def test_a_deadline_is_when_it_stops_and_not_before(rules: list[dict[str, Any]], events: list[Any]) -> None:
    made = stopper(*rules)
    for trial, result, elapsed in events:
        if result is not None and made.on_result(trial, result, elapsed).action is SchedulerAction.STOP:
            continue
        if made.on_time(trial, elapsed).action is SchedulerAction.STOP:
            continue
        deadline = made.find_deadline(trial, elapsed)
        if deadline is None:
            assert made.on_time(trial, 1e9) == CONTINUE
        else:
            assert deadline > elapsed
            assert made.on_time(trial, deadline).action is SchedulerAction.STOP
            assert made.on_time(trial, math.nextafter(deadline, 0)) == CONTINUE


def test_a_record_stays_of_use_when_the_rules_change() -> None:
    before = stopper({"plateau": {"window": 4, "tolerance": 0.01}}, {"plateau": {"metric": "loss"}})
    for _ in range(3):
        before.on_result(0, {"accuracy": 0.5, "loss": 1}, 0.0)
    after = stopper({"time": "1h"}, {"plateau": {"window": 3, "tolerance": 0.01, "grace": 4}})
    after.restore(0, before.record(0))
    assert stops(after, *values(0.5)) == [True]


def test_a_record_is_small() -> None:
    made = stopper({"plateau": {"window": 50}}, {"all": [{"time": "1h"}, {"expression": "accuracy < 0.1"}]})
    for step in range(80):
        made.on_result(0, {"accuracy": math.sin(step) * 1e-5, "training_iteration": step}, 0.0)
    record = made.record(0)
    assert record.keys() == {"window", "count", "last"}
    assert record["count"] == {"accuracy": "80"}
    assert max(len(text) for part in record.values() for text in part.values()) < 2048


def test_nothing_is_recorded_that_no_rule_needs() -> None:
    made = stopper({"iterations": 9}, {"expression": "accuracy < 0.1"}, {"any": [{"time": "1h"}, {"iterations": 3}]})
    made.on_result(0, {"accuracy": 0.5, "training_iteration": 1}, 0.0)
    assert made.record(0) == {}


def test_a_trial_that_has_ended_is_forgotten() -> None:
    made = stopper({"plateau": {}})
    made.on_result(0, {"accuracy": 0.5}, 0.0)
    made.forget(0)
    assert made.record(0) == {}
    made.forget(0)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"window": {"accuracy": "0.5 half"}},
            r"trial 3: status.stopper.window\['accuracy'\] is 'half', which is not a",
        ),
        ({"count": {"accuracy": "many"}}, r"status.stopper.count\['accuracy'\] is 'many'"),
        ({"last": {"accuracy": "{"}}, "which is not a value in JSON; correct it or remove the entry"),
        ({"last": {"accuracy": "[]"}}, "which is not a number, a text, true or false"),
    ],
)
def test_a_record_that_nobody_wrote_is_refused(record: dict[str, dict[str, str]], said: str) -> None:
    made = stopper({"all": [{"time": "1h"}, {"plateau": {}}, {"expression": "accuracy < 0.1"}]})
    with pytest.raises(RecordError, match=said):
        made.restore(3, record)
