"""Events follow from the objects alone: the same object tells the same events, whoever looks at it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.api.names import TrialState
from podtune.api.transitions import MAX_TRANSITIONS, Transition
from podtune.webhooks.events import EVENT_TYPES, Position, Subject, find_end, is_told, list_steps
from tests.unit.webhooks.subjects import EXPERIMENT, WrittenTrial

SOURCE = "/apis/podtune.dev/v1alpha1/namespaces/team/experiments/digits"


def tell(subject: Subject, position: Position = Position()) -> list[dict[str, object]]:  # noqa: B008 - frozen
    return [step.event for step in list_steps(subject, position)]


def test_a_change_of_state_names_trial_attempt_and_reason() -> None:
    trial = WrittenTrial().turn(TrialState.RUNNING, 2, "Training")
    assert tell(trial.subject) == [
        {
            "specversion": "1.0",
            "id": "t-0-transition-1",
            "source": SOURCE,
            "type": "dev.podtune.trial.running",
            "subject": "digits-0",
            "time": "2026-01-01T00:00:00Z",
            "datacontenttype": "application/json",
            "data": {
                "namespace": "team",
                "experiment": "digits",
                "trial": "digits-0",
                "parameters": {"lr": "0.01", "units": "32"},
                "number": 1,
                "state": "RUNNING",
                "reason": "Training",
                "attempt": 2,
            },
        }
    ]


def test_the_end_of_a_trial_comes_after_all_that_it_has_brought() -> None:
    trial = WrittenTrial().turn(TrialState.RUNNING).report(1, 0.5).report(2, 0.75).store(2)
    types = [event["type"] for event in tell(trial.turn(TrialState.TERMINATED).subject)]
    assert types == [
        "dev.podtune.trial.running",
        "dev.podtune.trial.result",
        "dev.podtune.trial.result",
        "dev.podtune.trial.checkpoint",
        "dev.podtune.trial.terminated",
    ]
    assert set(types) <= set(EVENT_TYPES)


def test_results_have_the_objectives_values_and_null_for_what_is_not_finite() -> None:
    trial = WrittenTrial().report(1, 0.5).report(2, float("nan"))
    first, second = (event["data"] for event in tell(trial.subject))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["number"], first["step"], first["seconds"], first["values"]) == (1, 1, 1.5, {"accuracy": 0.5})
    assert (second["number"], second["values"]) == (2, {"accuracy": None})


def test_a_curve_that_is_thinned_out_keeps_the_ids_of_its_results() -> None:
    trial = WrittenTrial()
    told: dict[int, dict[str, object]] = {}
    for step in range(1, 301):
        for event in tell(trial.report(step, 1 / step).subject):
            data = event["data"]
            assert isinstance(data, dict)
            assert told.setdefault(data["number"], event) == event
    assert len(told) == 300, "each was the last one when it was reported"


def test_a_trial_that_starts_from_scratch_tells_its_new_results_under_ids_of_their_own() -> None:
    trial = WrittenTrial().report(1, 0.5).report(2, 0.6)
    heard, position = tell(trial.subject), find_end(trial.subject)
    trial.status = trial.status.model_copy(update={"curve": None, "iteration": 0})
    assert tell(trial.subject, position) == []
    again = tell(trial.report(1, 0.4).subject, position)
    assert len(again) == 1
    assert again[0]["id"] not in {event["id"] for event in heard}


def test_two_checkpoints_of_one_iteration_are_two() -> None:
    trial = WrittenTrial().store(3)
    position = find_end(trial.subject)
    other = trial.status.checkpoints[0].model_copy(update={"uri": "s3://bucket/t-0/2/3"})
    trial.status = trial.status.model_copy(update={"checkpoints": [*trial.status.checkpoints, other]})
    (event,) = tell(trial.subject, position)
    assert isinstance(event["data"], dict)
    assert event["data"]["uri"] == "s3://bucket/t-0/2/3"


def test_changes_that_are_no_longer_on_record_are_counted() -> None:
    trial = WrittenTrial()
    for attempt in range(1, MAX_TRANSITIONS + 4):
        trial.turn(TrialState.RUNNING, attempt)
    steps = list(list_steps(trial.subject, Position(transition=1)))
    assert [step.missed for step in steps] == [2] + [0] * (MAX_TRANSITIONS - 1)


def test_who_has_heard_of_everything_hears_nothing() -> None:
    trial = WrittenTrial().turn(TrialState.RUNNING).report(1, 0.5).store(1)
    assert not is_told(trial.subject, Position())
    assert is_told(trial.subject, find_end(trial.subject))
    assert tell(trial.subject, find_end(trial.subject)) == []


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_the_end_of_an_experiment_says_what_it_has_come_to(state: str) -> None:
    ends = Transition(number=3, state=state, reason="TrialsComplete", time="2026-01-01T00:00:00Z")
    status = EXPERIMENT.status.model_copy(update={"transitions": [ends], "message": "3 of 3 trials done"})
    (event,) = tell(Subject(replace(EXPERIMENT, status=status)), Position(transition=2))
    assert (event["id"], event["type"]) == ("e-1-transition-3", f"dev.podtune.experiment.{state.lower()}")
    assert isinstance(event["data"], dict)
    assert (event["data"]["message"], event["data"]["best"]) == ("3 of 3 trials done", None)
