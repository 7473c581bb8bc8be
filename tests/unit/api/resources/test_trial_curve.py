"""How a learning curve is read and written."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from podtune.api.resources.trial import TrialStatus

WRITTEN: dict[str, Any] = {
    "results": 9,
    "every": 4,
    "steps": [1, 5, 9],
    "seconds": [0.25, None, 123460],
    "values": [[0.5, None, 1e-7], [1, 2, 3]],
}


def read(**changes: Any) -> TrialStatus:
    return TrialStatus.model_validate({"curve": {**WRITTEN, **changes}})


def test_it_is_written_as_it_was_read() -> None:
    status = read()
    assert status.model_dump(mode="json", by_alias=True, exclude_defaults=True) == {"curve": WRITTEN}
    assert TrialStatus.model_validate_json(status.model_dump_json(by_alias=True)) == status


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert read(best=0.5) == read()


def test_a_status_takes_a_curve_as_it_is() -> None:
    curve = read().curve
    assert TrialStatus(curve=curve).curve is curve
    assert copy.deepcopy(curve) == pickle.loads(pickle.dumps(curve)) == curve


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [1, 5]},
        {"seconds": [1, 2]},
        {"values": [[1, 2, 3], [1]]},
        {"values": []},
        {"steps": [], "seconds": [], "values": [[]]},
        {"steps": list(range(65))},
        {"every": 0},
    ],
)
def test_one_that_somebody_has_broken_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(**changes)
