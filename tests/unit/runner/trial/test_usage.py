"""What trials use is added up as their pods come and go, however many there are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.resources.trial import Consumption, TrialStatus, Usage
from podtune.runner.records import Pod, PodPhase
from podtune.runner.trial import usage

NOW = 1_700_000_000.0
POD = Pod("t-1", "uid", "t", 1, started=NOW - 60, training_since=NOW - 40, gpus=2.0)
ENDED = replace(POD, phase=PodPhase.SUCCEEDED, ended=NOW - 10, training_until=NOW - 12)


def used(training: int, pod: int, gpu: int, attempt: Consumption | None = None) -> Usage:
    return Usage(training_seconds=training, pod_seconds=pod, gpu_seconds=gpu, attempt=attempt)


def test_an_attempt_is_counted_by_its_pod() -> None:
    part = usage.measure_attempt(TrialStatus(), [POD], NOW)
    assert part == Consumption(training_seconds=40, pod_seconds=60, gpu_seconds=120)
    assert usage.measure_attempt(TrialStatus(), [ENDED], NOW) == Consumption(
        training_seconds=28, pod_seconds=50, gpu_seconds=100
    )
    starting = replace(POD, training_since=0.0)
    assert usage.measure_attempt(TrialStatus(), [starting], NOW).training_seconds == 0
    waiting = replace(starting, started=0.0)
    assert usage.sum_up(TrialStatus(), [waiting], NOW) is None


def test_attempts_add_up_and_are_counted_once() -> None:
    first = usage.conclude(TrialStatus(), [ENDED], NOW)
    assert first == used(28, 50, 100)
    status = TrialStatus(usage=first)
    for _ in range(2):
        status = status.model_copy(update={"usage": usage.sum_up(status, [POD], NOW)})
    assert status.usage == used(68, 110, 220, Consumption(training_seconds=40, pod_seconds=60, gpu_seconds=120))
    assert usage.measure_training(status, POD, NOW + 5) == 28 + 45
    assert usage.conclude(status, [ENDED], NOW) == used(56, 100, 200)


def test_a_pod_that_vanished_unseen_counts_as_it_was_written_last() -> None:
    status = TrialStatus(usage=usage.sum_up(TrialStatus(), [POD], NOW))
    vanished = Pod("t-1", "uid", "t", 1, gone=True)
    assert usage.conclude(status, [vanished], NOW + 9999) == used(40, 60, 120)


def test_a_clock_that_goes_wrong_takes_nothing_back() -> None:
    early = replace(POD, started=NOW + 5, training_since=NOW + 5)
    assert usage.measure_attempt(TrialStatus(), [early], NOW) == Consumption(
        training_seconds=0, pod_seconds=0, gpu_seconds=0
    )


events = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.sampled_from(["start", "end", "write", "none"]),
        st.floats(0.0, 5000.0),
        st.sampled_from([0.0, 1.0, 4.0, 1 / 7, 3 / 7]),
        st.integers(1, 3),
    ),
    max_size=40,
)


@given(events)
def test_the_total_is_the_sum_of_the_trials(events: list[tuple[int, str, float, float, int]]) -> None:
    totals, now = usage.Totals(), NOW
    statuses = {trial: TrialStatus() for trial in range(5)}
    pods: dict[int, tuple[Pod, ...]] = dict.fromkeys(range(5), ())
    for trial, event, seconds, gpus, replicas in events:
        now += seconds
        match event:
            case "start" if not pods[trial]:
                pod = Pod("p", "u", "t", 1, started=now, training_since=now, gpus=gpus)
                pods[trial] = tuple(replace(pod, rank=rank, started=now + rank) for rank in range(replicas))
            case "end" if pods[trial]:
                ended = [replace(pod, phase=PodPhase.FAILED, ended=max(now, pod.started)) for pod in pods[trial]]
                statuses[trial] = TrialStatus(usage=usage.conclude(statuses[trial], ended, now))
                pods[trial] = ()
            case "write":
                statuses[trial] = TrialStatus(usage=usage.sum_up(statuses[trial], pods[trial], now))
        totals.update(str(trial), statuses[trial], pods[trial], now)
        total = totals.compute_total(now)
        running = [pod for members in pods.values() for pod in members]
        ended_before = [usage.sum_ended_attempts(status) for status in statuses.values()]
        assert total.pods == len(running)
        assert total.gpus == pytest.approx(sum(pod.gpus for pod in running), abs=1e-6)
        assert total.pod_seconds == pytest.approx(
            sum(part.pod_seconds for part in ended_before) + sum(now - pod.started for pod in running), abs=1e-3
        )
        assert total.gpu_seconds == pytest.approx(
            sum(part.gpu_seconds for part in ended_before) + sum((now - pod.started) * pod.gpus for pod in running),
            abs=1e-3,
        )


def test_without_pods_no_gpus_are_held_whatever_was_rounded_before() -> None:
    totals = usage.Totals()
    for trial in range(7):
        totals.update(str(trial), TrialStatus(), [replace(POD, gpus=1 / 7)], NOW)
    assert totals.compute_total(NOW).gpus == pytest.approx(1)
    for trial in range(7):
        totals.update(str(trial), TrialStatus(), (), NOW)
    assert totals.compute_total(NOW + 1e9) == usage.Total(0.0, 0.0, 0, 0.0)
