"""Indexes of trials: those of proposals, and those of trials that people add, which never meet.

A trial is named `<experiment>-<index>`. Proposals have the indexes below the most trials that an experiment can have,
so one that somebody adds can't take the place of a proposal, such as a point of a grid.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from podtune.api.tuning.search import MAX_TRIALS

FIRST_ADDED = MAX_TRIALS
"""The lowest index of a trial that a person adds."""
MAX_ADDED = 99_999_999
ADDED_FORM = "[1-9][0-9]{5,7}"
"""The numbers from FIRST_ADDED to MAX_ADDED, as a regular expression."""
_NAME = re.compile(f"(?P<experiment>.+)-(?P<index>{ADDED_FORM})")


def is_added(index: int) -> bool:
    """Whether this is the index of a trial that a person has added."""
    return index >= FIRST_ADDED


def parse_added_index(name: str, experiment: str) -> int | None:
    """The index of a Trial that a person has added, by its name; None where that is no such name."""
    match = _NAME.fullmatch(name)
    return int(match["index"]) if match is not None and match["experiment"] == experiment else None


def read_index(trial: Mapping[str, Any]) -> int:
    """The index of a Trial as it is written, with its name and spec; -1 where it has none."""
    spec = trial["spec"]
    index: int | None = spec.get("index")
    if index is None:
        index = parse_added_index(trial["name"], spec.get("experiment", ""))
    return -1 if index is None else index


def find_number(index: int, repeats: int) -> int:
    """The number of a trial's configuration, by its index."""
    return index if is_added(index) else index // repeats


def find_first_index(number: int, repeats: int) -> int:
    """The index of the first trial of a configuration."""
    return number if is_added(number) else number * repeats


def count_repeats(index: int, repeats: int) -> int:
    """How many trials a trial's configuration has."""
    return 1 if is_added(index) else repeats
