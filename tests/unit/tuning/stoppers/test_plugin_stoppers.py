"""Stoppers of other packages: what they find and remember, and what happens if one goes wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from podtune.api.resources.trial import TrialStatus
from podtune.tuning.schedulers.base import Metrics, RecordError, SchedulerAction, SchedulerDecision, require_number
from podtune.tuning.stoppers.base import Finding, Stopper
from podtune.tuning.stoppers.factory import make_trial_stopper
from podtune.tuning.stoppers.trial import TrialStopper
from tests.entry_points import make_installation
from tests.unit.tuning.manifests import experiment


class Several(Stopper):
    """Stops a trial after several results that it counts; it fails on the metric `bomb`."""

    def __init__(self, **arguments: Any) -> None:
        self._after: int = arguments["settings"].get("after", 3)
        self._seen = 0

    @override
    def on_result(self, metrics: Metrics) -> Any:
        self._seen += 1
        if "bomb" in metrics:
            raise ZeroDivisionError("division by zero")
        if "wrong" in metrics:
            return metrics["wrong"]
        require_number(metrics, "accuracy")
        return (
            Finding(f"{self._seen} results are enough", {"results": self._seen}) if self._seen >= self._after else None
        )

    @override
    def record(self) -> Mapping[str, str]:
        return {"seen": str(self._seen) * (3000 if self._seen == 5 else 1)}

    @override
    def restore(self, record: Mapping[str, str]) -> None:
        self._seen = int(record["seen"])


installed = make_installation(
    *(EntryPoint(name, f"{__name__}:Several", "podtune.stoppers") for name in ("several", "other"))
)


def plugin(name: str = "several", **given: Any) -> dict[str, Any]:
    return {"plugin": {"name": name, "settings": given}}


def stopper(*rules: dict[str, Any]) -> TrialStopper:
    return make_trial_stopper(experiment(stop={"trial": list(rules)}))


def show(made: TrialStopper, *results: Metrics, trial: int = 0, elapsed: float = 0.0) -> list[bool]:
    """Which of a trial's results stop it."""
    return [made.on_result(trial, result, elapsed).action is SchedulerAction.STOP for result in results]


def restart(made: TrialStopper, *rules: dict[str, Any], trial: int = 0) -> TrialStopper:
    """Another operator's stopper, which knows what the Trial's status holds."""
    status = TrialStatus.model_validate({"stopper": made.record(trial)}, strict=True)
    rebuilt = stopper(*rules)
    rebuilt.restore(trial, status.stopper)
    return rebuilt


GOOD: Metrics = {"accuracy": 0.5}


def test_a_finding_stops_the_trial_with_its_clause_and_numbers() -> None:
    made = stopper(plugin())
    assert show(made, GOOD, GOOD) == [False, False]
    assert made.on_result(0, GOOD, 0.0) == SchedulerDecision(
        SchedulerAction.STOP, "stopped: 3 results are enough, as stop.trial[0].plugin asks", {"results": 3}
    )


def test_each_trial_has_a_stopper_of_its_own() -> None:
    made = stopper(plugin(after=2))
    assert show(made, GOOD) == show(made, GOOD, trial=1) == [False]
    assert show(made, GOOD) == [True]
    made.forget(0)
    assert made.record(0) == {}
    assert show(made, GOOD) == [False]


def test_the_same_one_may_stand_in_several_rules() -> None:
    rules = plugin(after=4), {"any": [plugin(after=3), plugin("other", after=9)]}
    made = stopper(*rules)
    assert show(made, GOOD) == [False]
    seen = json.dumps({"record": {"seen": "1"}})
    assert made.record(0) == {"plugins": {"several": seen, "several#2": seen, "other": seen}}
    rebuilt = restart(made, *rules)
    decision = [rebuilt.on_result(0, GOOD, 0.0) for _ in range(2)][-1]
    assert decision.message == "stopped: 3 results are enough, as stop.trial[1].any[0].plugin asks"


def test_one_that_follows_a_part_that_does_not_hold_sees_the_result_all_the_same() -> None:
    made = stopper({"all": [{"metrics": {"accuracy": 0.9}}, plugin(after=2)]})
    assert show(made, GOOD, {"accuracy": 0.95}) == [False, True]


def test_what_it_found_counts_until_the_next_result_also_after_a_restart() -> None:
    rule = {"all": [plugin(after=2), {"time": "60s"}]}
    made = stopper(rule)
    assert show(made, GOOD, GOOD) == [False, False]
    for one in (made, restart(made, rule)):
        assert one.find_deadline(0, 5.0) == 60.0
        assert one.on_time(0, 59.0).action is SchedulerAction.CONTINUE
        assert one.on_time(0, 60.0).message == (
            "stopped: 2 results are enough and 60 s of training are at least 60 s, as stop.trial[0].all asks"
        )


def test_a_result_without_its_metric_is_passed_over_and_the_trial_says_so() -> None:
    made = stopper(plugin(after=2))
    show(made, GOOD)
    before = made.record(0)
    assert show(made, {"loss": 1}) == [False]
    assert made.find_problem(0, {"loss": 1}).startswith(
        "stop.trial[0].plugin is passed over: metric 'accuracy' (objective.metric) is not in the result; seen: loss"
    )
    assert (made.failure, made.record(0)) == (None, before)
    assert show(made, GOOD) == [True]
    assert made.find_problem(0, GOOD) == ""


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({"bomb": 1}, "ZeroDivisionError: division by zero"),
        ({"wrong": True}, "TypeError: on_result() returned True; return a Finding or None"),
    ],
)
def test_one_that_fails_is_said_to_the_user_and_forgets_that_result(result: Metrics, problem: str) -> None:
    made = stopper(plugin(after=3))
    show(made, GOOD, trial=4)
    before = made.record(4)
    assert show(made, result, trial=4) == [False]
    assert made.failure is not None
    assert made.failure.message == (
        f"spec.stop.trial[0].plugin: 'several' failed on a result of trial 4 ({problem}); install a corrected version, "
        "or change or remove the rule; until then no trial starts, and running trials continue without it"
    )
    assert made.find_problem(4, result) == "stop.trial[0].plugin has failed, so it does not stop this trial"
    assert made.record(4) == before
    assert show(made, GOOD, trial=5) == [False]
    assert made.failure
    assert show(made, GOOD, trial=4) == [False]
    assert (made.failure, made.find_problem(4, GOOD)) == (None, "")
    assert show(made, GOOD, trial=4) == [True]


def test_a_failure_stays_when_its_trial_ends() -> None:
    made = stopper(plugin())
    show(made, {"bomb": 1})
    made.forget(0)
    assert made.failure


def test_a_record_that_is_too_long_is_a_failure() -> None:
    made = stopper(plugin(after=99))
    show(made, *[GOOD] * 4)
    before = made.record(0)
    show(made, GOOD)
    assert made.failure is not None
    assert "(ValueError: record and finding have 3024 characters of JSON; return at most 2048)" in made.failure.message
    assert made.record(0) == before


def test_what_it_remembered_with_other_settings_is_of_use_and_other_rules_are_left_out() -> None:
    made = stopper(plugin(after=9), plugin("other"))
    show(made, GOOD)
    changed = restart(made, plugin(after=2))
    assert changed.record(0) == {"plugins": {"several": json.dumps({"record": {"seen": "1"}})}}
    assert show(changed, GOOD) == [True]


def test_one_that_refuses_its_record_fails_on_the_next_result() -> None:
    made = stopper(plugin())
    made.restore(0, {"plugins": {"several": json.dumps({"record": {"counted": "1"}})}})
    assert made.failure is None
    assert show(made, GOOD) == [False]
    failure = made.failure
    assert failure is not None
    assert "(KeyError: 'seen'); install" in failure.message


@pytest.mark.parametrize("text", ["", "3", "{", '{"finding": {}}', '{"record": 3}'])
def test_a_record_that_nobody_wrote_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"trial 7: status.stopper.plugins\['several'\] is .*; remove the entry"):
        stopper(plugin()).restore(7, {"plugins": {"several": text}})


@given(results=st.lists(st.sampled_from([GOOD, {"loss": 1}, {"bomb": 1}, {"wrong": 3}]), max_size=12), data=st.data())
@settings(max_examples=150, deadline=None)
def test_a_restart_changes_no_decision_whatever_went_wrong_before(results: list[Metrics], data: st.DataObject) -> None:
    rules = {"all": [plugin(after=4), {"time": "60s"}]}, plugin("other", after=6)
    cut = data.draw(st.integers(0, len(results)))
    uncut = stopper(*rules)
    show(uncut, *results[:cut])
    rebuilt = restart(uncut, *rules)
    assert rebuilt.on_time(0, 60.0) == uncut.on_time(0, 60.0)
    for result in results[cut:]:
        assert rebuilt.on_result(0, result, 0.0) == uncut.on_result(0, result, 0.0)
        assert rebuilt.record(0) == uncut.record(0)
        assert rebuilt.on_time(0, 60.0) == uncut.on_time(0, 60.0)
