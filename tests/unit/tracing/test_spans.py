"""What is traced of experiments, trials and attempts, made of their objects alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.kube.trace_context import format_traceparent
from podtune.runner.timestamps import parse_rfc3339
from podtune.tracing.spans import TraceSpan, build_attempt_spans, build_experiment_span, build_trial_span
from tests.unit.tracing.traced import (
    EXPERIMENT_UID,
    TRACE_ID,
    at,
    attempt_end,
    end_experiment,
    end_trial,
    make_experiment,
    make_trial,
)


def seconds(second: int) -> float:
    moment = parse_rfc3339(at(second))
    assert moment is not None
    return moment


def whole_trace() -> dict[str, TraceSpan]:
    """The spans of an experiment with one trial, by name."""
    experiment, trial = end_experiment(), end_trial()
    spans = [
        build_experiment_span(experiment),
        build_trial_span(experiment, trial),
        *build_attempt_spans(experiment, trial),
    ]
    return {span.name: span for span in spans if span is not None}


def test_an_experiment_is_one_trace_from_its_creation_to_its_end() -> None:
    trace = whole_trace()
    assert {span.trace_id.hex() for span in trace.values()} == {TRACE_ID}
    assert (trace["experiment"].start, trace["experiment"].end) == (seconds(0), seconds(100))
    assert (trace["trial"].start, trace["trial"].end) == (seconds(1), seconds(9))
    assert (trace["attempt"].start, trace["attempt"].end) == (seconds(2), seconds(9))
    assert (trace["start"].start, trace["start"].end) == (seconds(2), seconds(5))


def test_each_span_is_the_child_of_what_it_is_a_part_of() -> None:
    trace = whole_trace()
    assert trace["experiment"].parent_id == b""
    assert trace["trial"].parent_id == trace["experiment"].span_id
    assert trace["attempt"].parent_id == trace["trial"].span_id
    assert trace["start"].parent_id == trace["attempt"].span_id
    assert len({span.span_id for span in trace.values()}) == 4


def test_what_the_program_traces_is_a_part_of_its_attempt() -> None:
    attempt = whole_trace()["attempt"]
    assert format_traceparent(EXPERIMENT_UID, "t-1", 1) == f"00-{TRACE_ID}-{attempt.span_id.hex()}-01"


def test_attributes_say_what_it_was_in_the_words_of_opentelemetry() -> None:
    trace = whole_trace()
    assert trace["attempt"].attributes == {
        "k8s.namespace.name": "team",
        "k8s.pod.name": "digits-0-1",
        "k8s.pod.uid": "p-1",
        "k8s.node.name": "n-1",
        "podtune.experiment.name": "digits",
        "podtune.experiment.uid": EXPERIMENT_UID,
        "podtune.trial.name": "digits-0",
        "podtune.trial.uid": "t-1",
        "podtune.attempt.number": 1,
        "podtune.attempt.class": "complete",
        "podtune.attempt.reason": "Completed",
    }
    assert trace["trial"].attributes["podtune.parameter.lr"] == "0.01"
    assert trace["experiment"].attributes["podtune.experiment.state"] == "Complete"
    assert all(span.error is None for span in trace.values())


def test_an_attempt_that_failed_says_why() -> None:
    failed: dict[str, Any] = {"class": "user", "reason": "Error", "message": "exit code 3", "exitCode": 3}
    trial = make_trial(state="PENDING", attempt=1, lastAttempt=attempt_end(**failed))
    attempt, start = build_attempt_spans(make_experiment(), trial)
    assert attempt.error == "exit code 3"
    assert attempt.attributes["error.type"] == "Error"
    assert attempt.attributes["process.exit.code"] == 3
    assert start.error is None
    assert build_trial_span(make_experiment(), trial) is None, "it is tried again"


def test_a_program_that_never_started_shows_as_a_start_that_failed() -> None:
    fields: dict[str, Any] = {"class": "infrastructure", "reason": "CannotStart", "message": "no image"}
    failed = attempt_end(started=None, **fields)
    attempt, start = build_attempt_spans(make_experiment(), make_trial(lastAttempt=failed))
    assert (start.start, start.end) == (attempt.start, attempt.end)
    assert start.error == "the program did not start"


def test_a_pause_is_no_failure() -> None:
    fields: dict[str, Any] = {"class": "ours", "reason": "PausedByScheduler"}
    paused = attempt_end(**fields)
    attempt, _ = build_attempt_spans(make_experiment(), make_trial(state="PAUSED", lastAttempt=paused))
    assert attempt.error is None


def test_a_trial_that_failed_for_good_and_an_experiment_that_did_are_errors() -> None:
    trial = build_trial_span(make_experiment(), end_trial(state="ERROR", reason="TooManyFailures", message="exit 1"))
    experiment = build_experiment_span(end_experiment(state="Failed", message="no trial succeeded"))
    assert trial is not None
    assert experiment is not None
    assert (trial.error, trial.attributes["error.type"]) == ("exit 1", "TooManyFailures")
    assert experiment.error == "no trial succeeded"


def test_decisions_are_events_of_the_trial_unless_they_changed_nothing() -> None:
    ledger = [
        {"number": 1, "time": at(3), "attempt": 1, "step": 1, "action": "CONTINUE"},
        {"number": 2, "time": at(4), "attempt": 1, "step": 3, "action": "PAUSE", "message": "below the median"},
        {"number": 3, "time": at(600), "attempt": 1, "step": 9, "action": "STOP"},
    ]
    trial = build_trial_span(make_experiment(), end_trial(ledger=ledger))
    assert trial is not None
    assert [(event.name, event.time) for event in trial.events] == [
        ("podtune.pause", seconds(4)),
        ("podtune.stop", seconds(9)),
    ]
    assert trial.events[0].attributes == {
        "podtune.decision.message": "below the median",
        "podtune.attempt.number": 1,
        "podtune.iteration": 3,
    }


def test_a_later_attempt_changes_nothing_of_the_span_of_the_one_that_ended() -> None:
    pod = {"name": "digits-0-2", "uid": "p-2", "node": "n-2"}
    before, after = make_trial(lastAttempt=attempt_end()), make_trial(lastAttempt=attempt_end(), attempt=2, pod=pod)
    assert list(build_attempt_spans(make_experiment(), before)) == list(build_attempt_spans(make_experiment(), after))


def test_a_reused_pod_is_named_without_the_attempt() -> None:
    attempt, _ = build_attempt_spans(make_experiment(), end_trial(lastAttempt=attempt_end(uid="p-1/3.2")))
    assert attempt.attributes["k8s.pod.uid"] == "p-1"


def test_what_goes_on_has_no_span() -> None:
    running = make_trial(state="RUNNING", attempt=1)
    assert build_experiment_span(make_experiment(state="Running", startTime=at(1))) is None
    assert build_trial_span(make_experiment(), running) is None
    assert not list(build_attempt_spans(make_experiment(), running))


def test_what_is_deleted_ends_then() -> None:
    experiment = build_experiment_span(make_experiment(), seconds(50))
    trial = build_trial_span(make_experiment(), make_trial(), seconds(50))
    assert experiment is not None
    assert trial is not None
    assert (experiment.end, experiment.attributes["podtune.experiment.state"]) == (seconds(50), "Deleted")
    assert (trial.end, trial.attributes["podtune.trial.state"]) == (seconds(50), "Deleted")


def test_an_attempt_that_ended_before_there_were_traces_has_no_span() -> None:
    old = {"attempt": 1, "uid": "p-1", "class": "complete", "reason": "Completed"}
    assert not list(build_attempt_spans(make_experiment(), end_trial(lastAttempt=old)))


def test_an_experiment_that_resumes_has_another_span_and_its_trials_are_a_part_of_that() -> None:
    resumption = {"runGeneration": 1, "unfinished": "Resume", "errored": "Skip", "finished": "Skip"}
    first, second = end_experiment(), end_experiment(200, resumption=resumption)
    spans = [build_experiment_span(first), build_experiment_span(second)]
    assert spans[0] is not None
    assert spans[1] is not None
    assert spans[0].span_id != spans[1].span_id
    early = build_trial_span(second, end_trial())
    late = build_trial_span(second, end_trial(150, runGeneration=1))
    assert early is not None
    assert late is not None
    assert [early.parent_id, late.parent_id] == [spans[0].span_id, spans[1].span_id]
    assert early.span_id != late.span_id


@pytest.mark.parametrize("field", ["completionTime", "startTime"])
def test_a_time_that_somebody_has_broken_is_as_if_it_were_not_there(field: str) -> None:
    assert build_experiment_span(replace(make_experiment(**{field: "soon"}), created="")) is None


@given(
    order=st.lists(st.integers(0, 3000), min_size=4, max_size=4).map(sorted),
    clocks=st.tuples(st.integers(0, 3000), st.integers(0, 3000)),
    started=st.booleans(),
)
def test_children_lie_within_their_parents_whatever_the_clocks_of_nodes_say(
    order: list[int], clocks: tuple[int, int], started: bool
) -> None:
    trial_created, recorded, trial_ended, experiment_ended = order
    pod_created, program_started = clocks
    experiment = end_experiment(experiment_ended)
    end = attempt_end(created=pod_created, started=program_started if started else None, ended=recorded)
    trial = replace(end_trial(trial_ended, lastAttempt=end), created=at(trial_created))
    spans = [build_experiment_span(experiment), build_trial_span(experiment, trial)]
    known = {span.span_id: span for span in spans if span is not None}
    for span in build_attempt_spans(experiment, trial):
        known[span.span_id] = span
    assert len(known) == 4
    for span in known.values():
        assert span.start <= span.end
        if span.parent_id:
            parent = known[span.parent_id]
            assert parent.start <= span.start
            assert span.end <= parent.end


@given(second=st.integers(1, 3000), number=st.integers(1, 50))
def test_an_operator_that_reads_the_objects_anew_makes_the_same_spans(second: int, number: int) -> None:
    def make() -> list[TraceSpan]:
        experiment = end_experiment(3000)
        trial = end_trial(second, lastAttempt=attempt_end(number, created=0, started=0, ended=second))
        own = [build_experiment_span(experiment), build_trial_span(experiment, trial)]
        return [*filter(None, own), *build_attempt_spans(experiment, trial)]

    assert make() == make()
