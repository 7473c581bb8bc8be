"""What earlier releases wrote can be read: their objects, their pods, and what their agents say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from podtune.cluster.decoders import decode_experiment, decode_pod, decode_storage_pod, decode_trial
from podtune.protocol.messages import parse_final_commit
from podtune.protocol.storage_job import parse_storage_report
from tests.golden.keep_release import RELEASES, Collection, read_stream
from tests.golden.messages import MESSAGES

Object = dict[str, Any]
RELEASED = sorted(path.name for path in RELEASES.iterdir())
LATER: dict[str, dict[str, dict[str, object]]] = {
    "0.2.0": {"report": {"stored": None}, "reply": {"records": ()}},
}
"""By release and kind of message: the fields that it did not know yet, and what they are where nobody gives them."""


def read_objects(release: str, kind: str) -> Iterator[Object]:
    with (RELEASES / release / f"{kind}.jsonl").open() as lines:
        yield from map(json.loads, lines)


def find_lost(written: object, now: object, path: str = "") -> list[str]:
    """Fields that were written and are not there, or say something else."""
    if isinstance(written, dict) and isinstance(now, dict):
        return [lost for key, value in written.items() for lost in find_lost(value, now.get(key), f"{path}.{key}")]
    if isinstance(written, list) and isinstance(now, list) and len(written) == len(now):
        return [lost for one, other in zip(written, now, strict=True) for lost in find_lost(one, other, path)]
    return [] if written == now else [f"{path}: {written!r}, now {now!r}"]


@pytest.mark.parametrize("release", RELEASED)
def test_experiments_of_a_release_are_read_without_loss(release: str) -> None:
    for body in read_objects(release, "experiments"):
        experiment, status = decode_experiment(body), body.get("status", {})
        is_refused = any(c["type"] == "Stalled" and c["status"] == "True" for c in status.get("conditions", ()))
        assert is_refused or "state" not in status or not experiment.problem
        assert not find_lost(status, experiment.status.model_dump(mode="json", by_alias=True))


@pytest.mark.parametrize("release", RELEASED)
def test_trials_of_a_release_are_read_without_loss(release: str) -> None:
    for body in read_objects(release, "trials"):
        trial = decode_trial(body)
        assert not find_lost(body["spec"], trial.spec.model_dump(mode="json", by_alias=True))
        assert not find_lost(body.get("status", {}), trial.status.model_dump(mode="json", by_alias=True))


@pytest.mark.parametrize("release", RELEASED)
def test_pods_that_a_release_made_are_known(release: str) -> None:
    messages = 0
    for body in read_objects(release, "pods"):
        pod = decode_pod(body)
        assert (pod.trial, pod.attempt) != ("", 0)
        if pod.agent_message.startswith("{"):  # else it is the kubelet that speaks for a container that it lost
            assert parse_final_commit(pod.agent_message).attempt.startswith(pod.uid)
            messages += 1
    assert messages
    reports = [decode_storage_pod(body).message for body in read_objects(release, "storage-pods")]
    assert any(parse_storage_report(text).ok for text in filter(None, reports))


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("release", RELEASED)
def test_messages_of_a_release_are_understood(release: str, kind: str) -> None:
    written = json.loads((RELEASES / release / "messages.json").read_text())[kind]
    message = MESSAGES[kind]
    later: dict[str, Any] = LATER.get(release, {}).get(kind, {})
    assert message.parse(written) == (replace(cast(Any, message.value), **later) if later else message.value)
    assert not find_lost(json.loads(written), json.loads(message.text)), "an agent of that release reads these fields"


def test_an_object_is_kept_only_if_it_shows_something_new() -> None:
    collection = Collection()
    for state in ("Pending", "Pending", "Running"):
        collection.add({"metadata": {}, "status": {"state": state}})
    both = {"metadata": {}, "status": {"state": "Running", "seen": {"state": "Pending"}}}
    collection.add(both)
    assert collection.choose() == [both, {"metadata": {}, "status": {"state": "Pending"}}]


def test_objects_are_read_one_after_the_other_as_kubectl_prints_them() -> None:
    printed = [json.dumps({"number": number, "below": {}}, indent=4) + "\n" for number in range(2)]
    assert [found["number"] for found in read_stream(iter("".join(printed).splitlines(keepends=True)))] == [0, 1]
