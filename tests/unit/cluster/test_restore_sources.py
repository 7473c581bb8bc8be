"""Looking up the checkpoint of another experiment's trial."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podtune.api.restore_from import RestoreFrom
from podtune.cluster.restore_sources import find_checkpoint
from podtune.kube.errors import make_refusal
from podtune.runner.actions import ActionResult, ActionStatus, FindCheckpoint

CHECKPOINTS = [{"step": step, "uri": f"s3://b/u/other-3/a/{step}", "digest": f"sha256:{step}"} for step in (4, 8)]
DISCARDED = {"action": "STOP", "reason": "StoppedByScheduler", "attempt": 1, "discards": True}


class OneTrial:
    """An API server with one Trial, or none."""

    def __init__(self, trial: dict[str, Any] | None) -> None:
        self.trial = trial
        self.asked: list[tuple[str, str]] = []

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        self.asked.append((method, path))
        if self.trial is None:
            raise make_refusal(404, "NotFound", "not found")
        return self.trial


class Trials(OneTrial):
    """An API server with some Trials, each of which starts from the next one, and the last from the first."""

    def __init__(self, *names: str, **fields: Any) -> None:
        super().__init__(None)
        self.trials = {
            name: trial(checkpoints=[], waits_for=next_name) | fields
            for name, next_name in zip(names, [*names[1:], names[0]], strict=True)
        }

    async def request(self, method: str, path: str, **_: object) -> dict[str, Any]:
        self.trial = self.trials.get(path.rpartition("/")[2])
        return await super().request(method, path)


def trial(
    state: str = "RUNNING",
    experiment: str = "other",
    checkpoints: Any = CHECKPOINTS,
    waits_for: str = "",
    **status: Any,
) -> dict[str, Any]:
    wanted = {"restoreFrom": {"trial": waits_for}} if waits_for else {}
    return {
        "metadata": {"name": "other-3", "namespace": "ns", "uid": "u3", "resourceVersion": "7", "generation": 1},
        "spec": {"experiment": experiment, "index": 3, "parameters": {}, **wanted},
        "status": {"state": state, "checkpoints": checkpoints, **status},
    }


def find(found: dict[str, Any] | None, step: int | None = None, lost: tuple[str, ...] = ()) -> ActionResult:
    client = OneTrial(found)
    wanted = RestoreFrom(experiment="other", trial="other-3", step=step)
    outcome = asyncio.run(find_checkpoint(client, "ns", FindCheckpoint("e-0", wanted, lost)))  # type: ignore[arg-type]
    assert client.asked == [("GET", "/apis/podtune.dev/v1alpha1/namespaces/ns/trials/other-3")]
    return outcome


@pytest.mark.parametrize(("step", "expected"), [(None, 8), (4, 4)])
def test_the_latest_or_the_one_that_is_asked_for(step: int | None, expected: int) -> None:
    outcome = find(trial(), step)
    assert outcome.status is ActionStatus.DONE
    assert outcome.checkpoint.step == expected


@pytest.mark.parametrize(
    ("found", "step", "status", "said"),
    [
        (None, None, ActionStatus.FAILED, "there is no trial other-3 yet"),
        (trial(checkpoints=[]), None, ActionStatus.FAILED, "other-3 has no such checkpoint yet"),
        (trial(), 12, ActionStatus.FAILED, "other-3 has no such checkpoint yet"),
        (trial("TERMINATED", checkpoints=[]), None, ActionStatus.REFUSED, "other-3 ended without a checkpoint"),
        (
            trial("TERMINATED", checkpoints=[], reason="StoppedByScheduler"),
            None,
            ActionStatus.REFUSED,
            "other-3 ended without a checkpoint; checkpoints.keep.stopped says what such trials keep",
        ),
        (
            trial(
                "TERMINATED",
                checkpoints=[],
                decision=DISCARDED,
            ),
            None,
            ActionStatus.REFUSED,
            "other-3 was stopped, and its experiment keeps no checkpoint of it (checkpoints.keep.stopped)",
        ),
        (trial("ERROR"), 5, ActionStatus.REFUSED, "other-3 no longer has a checkpoint of iteration 5 (kept: 4, 8)"),
        (trial(experiment="x"), None, ActionStatus.REFUSED, "trial other-3 is of experiment x, not of other"),
    ],
)
def test_what_is_not_there_is_told(found: Any, step: int | None, status: ActionStatus, said: str) -> None:
    assert (find(found, step).status, find(found, step).message) == (status, said)


def test_what_could_not_be_restored_is_passed_over() -> None:
    older, newest = (str(checkpoint["uri"]) for checkpoint in CHECKPOINTS)
    found = find(trial(), lost=(newest,)).checkpoint
    assert found.uri == older
    assert find(trial(), lost=(older, newest)).status is ActionStatus.FAILED, "it may still have a further one"
    ended = find(trial("TERMINATED"), lost=(older, newest))
    assert (ended.status, ended.message) == (ActionStatus.REFUSED, "other-3 has no other checkpoint to start from")


@pytest.mark.parametrize("others", [["other-3"], ["other-3", "third-0", "fourth-1"]])
def test_trials_that_would_wait_for_each_other_are_told_so(others: list[str]) -> None:
    wanted = FindCheckpoint("e-0", RestoreFrom(experiment="other", trial="other-3"))

    def look(client: Trials) -> ActionResult:
        return asyncio.run(find_checkpoint(client, "ns", wanted))  # type: ignore[arg-type]

    found = look(Trials("e-0", *others))
    assert found.status is ActionStatus.REFUSED
    assert found.message == "other-3 itself waits for a checkpoint of e-0, so neither would ever start"
    begun = Trials("e-0", *others)
    begun.trials[others[-1]]["status"]["restoreSource"] = {}
    assert look(begun).status is ActionStatus.FAILED, "the last of them has begun"
    assert look(Trials(*others)).status is ActionStatus.FAILED, "a circle of others is theirs"
