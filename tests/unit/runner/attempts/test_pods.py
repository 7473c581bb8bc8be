"""What is known of an attempt from its pods: of one, and of a gang's several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtune.runner.attempts.pods import AttemptPods, format_pod_name
from podtune.runner.records import ContainerEnd, Pod, PodPhase, Waiting


def pod(rank: int = 0, phase: PodPhase = PodPhase.RUNNING, version: int = 1) -> Pod:
    return Pod(f"e-0-1-{rank}", f"uid-{rank}", "e-0", 1, phase, rank=rank, version=version)


def gang(*pods: Pod, replicas: int = 3) -> AttemptPods:
    attempt = AttemptPods(replicas)
    for member in pods:
        attempt = attempt.put_pod(member)
    return attempt


def gated(rank: int) -> Pod:
    return replace(pod(rank, PodPhase.PENDING), gated=True)


def test_only_the_pods_of_a_gang_bear_their_rank() -> None:
    assert format_pod_name("e-0", 2, 0, replicas=1) == "e-0-2"
    assert format_pod_name("e-0", 2, 3, replicas=4) == "e-0-2-3"


def test_a_gang_is_kept_by_rank_each_pod_once() -> None:
    attempt = gang(pod(2), pod(0), pod(1), pod(2, version=7))
    assert [(member.rank, member.version) for member in attempt] == [(0, 1), (1, 1), (2, 7)]
    assert attempt.find_pod(2) == pod(2, version=7)
    assert attempt.find_pod(3) is None


def test_a_single_pod_takes_the_place_of_the_one_before() -> None:
    later = replace(pod(), uid="later")
    assert gang(pod(), later, replicas=1).members == (later,)


def test_the_first_request_to_delete_a_pod_counts() -> None:
    """The kubelet's own deletion of a pod that has ended moves the moment on record."""
    ended = replace(pod(2, PodPhase.FAILED), deleting=True, training_until=11.0, deletion_requested=10.0)
    attempt = gang(ended, replace(ended, deletion_requested=12.0), replace(ended, deletion_requested=12.0, gone=True))
    assert attempt.members[0].interrupted
    after_its_end = replace(ended, deletion_requested=12.0)
    assert not gang(after_its_end, replace(after_its_end, deletion_requested=13.0)).members[0].interrupted


@pytest.mark.parametrize(
    ("end", "interrupted"),
    [
        (ContainerEnd("trial", 143, "Error"), True),
        (ContainerEnd("trial", 137, "Error"), True),
        (ContainerEnd("trial", 137, "OOMKilled"), False),
        (ContainerEnd("trial", 1, "Error"), False),
        (ContainerEnd("other", 143, "Error"), False),
    ],
)
def test_a_deletion_is_known_by_its_signal_where_only_the_kubelets_own_was_seen(
    end: ContainerEnd, interrupted: bool
) -> None:
    """A watch that is slow shows the last of several changes."""
    seen = replace(pod(0, PodPhase.FAILED), deleting=True, training_until=11.0, deletion_requested=12.0, ends=(end,))
    assert seen.interrupted is interrupted
    assert not replace(seen, reason="Evicted").interrupted
    assert not replace(seen, deleting=False).interrupted


def test_rank_0_leads_and_no_other() -> None:
    assert not AttemptPods(1)
    assert AttemptPods(1).leader is None
    assert gang(pod(1), pod(2)).leader is None
    assert gang(pod(1), pod(0)).leader == pod(0)


@pytest.mark.parametrize(
    ("pods", "lacks_some"),
    [
        ((), True),
        ((gated(0), gated(1)), True),
        ((gated(0), gated(1), gated(2)), False),
        ((gated(0), pod(1)), False),  # one without a gate: all were there
        ((gated(0), replace(gated(1), deleting=True)), False),
        ((gated(0), replace(gated(1), gone=True)), False),
    ],
)
def test_pods_are_still_to_be_made_while_each_one_waits_behind_its_gate(
    pods: tuple[Pod, ...], lacks_some: bool
) -> None:
    assert gang(*pods).lacks_some is lacks_some


def test_a_gang_begins_with_the_first_gate_that_is_taken_away() -> None:
    assert not gang(gated(0), gated(1), gated(2)).has_begun
    assert gang(gated(0), pod(1), gated(2)).has_begun


def test_a_gang_is_placed_when_each_pod_has_found_a_node_or_has_ended() -> None:
    placed = [replace(pod(rank), node="n1") for rank in range(3)]
    assert gang(*placed).is_placed
    assert not gang(*placed[:2]).is_placed
    assert not gang(*placed[:2], pod(2)).is_placed
    assert gang(*placed[:2], pod(2, PodPhase.FAILED)).is_placed


def test_an_attempt_is_over_when_all_of_its_pods_are() -> None:
    ended = [pod(rank, PodPhase.SUCCEEDED) for rank in range(3)]
    assert gang(*ended).is_over
    assert gang(*ended[:2], replace(pod(2), gone=True)).is_over
    assert not gang(*ended[:2], pod(2)).is_over
    assert not gang(*ended[1:]).is_over  # its leader was not seen
    assert gang(*ended[:1]).is_over  # one without a gate: the others were there, and are gone


def test_an_attempt_trains_when_all_of_its_pods_do() -> None:
    training = [replace(pod(rank), training=True) for rank in range(3)]
    assert gang(*training).is_training
    assert not gang(*training[:2]).is_training
    assert not gang(*training[:2], pod(2)).is_training


def test_a_pod_that_can_not_start_by_itself_is_named_before_one_that_waits() -> None:
    training = replace(pod(0), training=True)
    hopeless = replace(pod(2), waiting=Waiting("ErrImageNeverPull", "it is not there", hopeless=True))
    assert gang(training).not_started is None
    assert gang(training, pod(1)).not_started == pod(1)
    assert gang(training, pod(1), hopeless).not_started == hopeless
