"""What a manifest may say of help after an out-of-memory failure, and of a trial's own limits."""

from __future__ import annotations

from typing import Any

import pytest

from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.validation import InvalidSpec, parse_experiment


def parse(policy: dict[str, Any]) -> Any:
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [{"name": "workers", "int": {"min": 1, "max": 4}}],
        "search": {"maxTrials": 1},
        "failures": {"outOfMemory": policy},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "example"}]}},
    }
    return parse_experiment({"metadata": {"name": "e"}, "spec": spec}).failures.out_of_memory


def test_memory_is_raised_by_half_unless_it_is_said() -> None:
    assert parse({"upTo": "64Gi"}).raise_memory_by == 1.5
    assert parse({"upTo": "500M", "raiseMemoryBy": 10}).raise_memory_by == 10


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        ({"upTo": "64Gi", "raiseMemoryBy": 1}, "outOfMemory.raiseMemoryBy: 1 is too small; it must be above 1"),
        ({"upTo": "64Gi", "raiseMemoryBy": 10.5}, "outOfMemory.raiseMemoryBy: 10.5 is too large; it may be at most 10"),
        ({"upTo": "64GB"}, "outOfMemory.upTo: '64GB' is not a size; write it like 50Gi"),
        ({"raiseMemoryBy": 2}, "outOfMemory.upTo: is missing; add it"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_a_remedy(policy: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse(policy)
    assert f"spec.failures.{problem}" in str(raised.value)


def test_a_trial_can_be_read_whatever_limits_its_user_has_written() -> None:
    """The operator says what is wrong with them in the Trial's status, which it could not of one that it can't read."""
    body = {"experiment": "e", "index": 0, "parameters": {}, "limits": {"memory": "much", "nvidia.com/gpu": 2}}
    assert TrialSpec.model_validate(body).limits == {"memory": "much", "nvidia.com/gpu": "2"}


def test_a_raise_is_written_as_from_and_to() -> None:
    status = TrialStatus.model_validate({"raisedMemory": {"from": "2Gi", "to": "3Gi"}})
    assert status.model_dump(by_alias=True, exclude_defaults=True) == {"raisedMemory": {"from": "2Gi", "to": "3Gi"}}
