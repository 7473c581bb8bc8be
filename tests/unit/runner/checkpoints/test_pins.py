"""Which of a donor's checkpoints its agent is told to keep for others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from podtune.api.resources.trial import Checkpoint, Clone, TrialStatus
from podtune.runner.checkpoints.pins import CheckpointPins
from podtune.runner.trial.machine import TrialMachine


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step=step, uri=f"s3://bucket/e-0/{step}", digest="sha256:0")


def cloning(name: str, step: int | None, saved: int | None = None) -> TrialMachine:
    def status(step: int | None) -> TrialStatus:
        clone = None if step is None else Clone(donor="e-0", checkpoint=checkpoint(step))
        return TrialStatus(clone=clone)

    trial: Any = SimpleNamespace(name=name, status=status(step), saved=status(saved))
    return cast("TrialMachine", trial)


def recording(*steps: int) -> TrialStatus:
    return TrialStatus(checkpoints=[checkpoint(step) for step in steps])


def test_what_is_cloned_is_kept_until_it_is_durable_that_it_is_needed_no_more() -> None:
    pins = CheckpointPins()
    pins.update(cloning("e-1", 3))
    pins.update(cloning("e-2", 3))
    for left in (cloning("e-1", None), cloning("e-2", None, saved=3)):
        pins.update(left)
        assert pins.list_uris("e-0", recording(5)) == ("s3://bucket/e-0/3",)
    pins.update(cloning("e-2", None))
    assert pins.list_uris("e-0", recording(5)) == ()


@pytest.mark.parametrize("recorded", [(), (1,), (1, 2)])
def test_one_that_is_newer_than_all_that_is_recorded_is_not_named(recorded: tuple[int, ...]) -> None:
    """Else the agent would delete those before it, of which one may just be recorded."""
    pins = CheckpointPins()
    pins.update(cloning("e-1", 3))
    assert pins.list_uris("e-0", recording(*recorded)) == ()
    assert pins.list_uris("e-0", recording(3)) == ("s3://bucket/e-0/3",)
