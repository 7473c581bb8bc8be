"""How far a receiver has heard of each object, and that in a form that is small enough to be kept.

Of Trials that have ended, and of which everything was told, only their indexes are kept, as ranges: a whole experiment
of 10,000 trials takes a few bytes. An index stands for a Trial as it ended in one run generation of its Experiment.
A Trial whose index another one may have had before is kept by its UID.

What was kept too early is told again, under the same id. What was never kept is told.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podtune.api.resources.trial import format_indexes
from podtune.api.resources.trial_numbers import is_added
from podtune.webhooks.events import Position, Subject, find_end, is_told


@dataclass(slots=True)
class _Kept:
    """What is known of an Experiment and its Trials.

    Attributes:
        own: Of the Experiment itself.
        trials: By UID.
        ended: By UID of a Trial that has ended: its run generation and its index.
    """

    own: Position | None = None
    trials: dict[str, Position] = field(default_factory=dict)
    ended: dict[str, tuple[int, int]] = field(default_factory=dict)


class Positions:
    """A receiver's positions, by object."""

    def __init__(self, kept: Mapping[str, str] | None) -> None:
        """Begins with what was kept.

        Args:
            kept: Texts by UID of the Experiment; None for a receiver that is new: it has heard of all that there is.
        """
        self._is_new = kept is None
        self._loaded = {uid: _Loaded(text) for uid, text in (kept or {}).items()}
        self._kept: dict[str, _Kept] = {}
        self._texts: dict[str, str] = dict(kept or {})
        self._changed: set[str] = set()

    @property
    def has_changed(self) -> bool:
        """Whether something is to be kept that is not yet."""
        return bool(self._changed)

    def find(self, subject: Subject) -> Position:
        """How far the receiver has heard of an object."""
        kept = self._kept.get(subject.experiment.uid)
        if kept is not None:
            known = kept.own if subject.trial is None else kept.trials.get(subject.trial.uid)
            if known is not None:
                return known
        position = self._look_up(subject)
        self.set(subject, position)
        return position

    def set(self, subject: Subject, position: Position) -> None:
        """The receiver has heard of an object up to a position."""
        kept = self._kept.setdefault(subject.experiment.uid, _Kept())
        self._changed.add(subject.experiment.uid)
        trial = subject.trial
        if trial is None:
            kept.own = position
            return
        kept.trials[trial.uid] = position
        if _has_index_alone(subject) and _has_ended(subject) and is_told(subject, position):
            kept.ended[trial.uid] = (trial.status.run_generation, trial.spec.index)
        else:
            kept.ended.pop(trial.uid, None)

    def forget(self, experiment: str, trial: str = "") -> None:
        """An object is gone, and there is nothing to be told of it any more."""
        kept = self._kept.get(experiment)
        if kept is None:
            return
        if trial:
            kept.trials.pop(trial, None)
            kept.ended.pop(trial, None)
        else:
            kept.own = None
        if kept.own is None and not kept.trials:
            del self._kept[experiment]
        self._changed.add(experiment)

    def end_loading(self) -> None:
        """All that there is has been looked up: what comes from now on is new, and what is left is of nobody."""
        self._is_new = False
        self._changed |= self._loaded.keys() - self._kept.keys()
        self._loaded.clear()

    def encode(self) -> dict[str, str]:
        """What is to be kept, by UID of the Experiment; from now on it counts as kept."""
        for uid in self._changed:
            kept = self._kept.get(uid)
            if kept is None:
                self._texts.pop(uid, None)
            else:
                self._texts[uid] = _encode(kept)
        self._changed.clear()
        return dict(self._texts)

    def mark_unkept(self) -> None:
        """What was encoded could not be kept."""
        self._changed |= self._kept.keys()

    def _look_up(self, subject: Subject) -> Position:
        if self._is_new:
            return find_end(subject)
        loaded = self._loaded.get(subject.experiment.uid)
        return loaded.find(subject) if loaded is not None else Position()


class _Loaded:
    """What was kept of an Experiment by the operator before."""

    def __init__(self, text: str) -> None:
        try:
            fields = json.loads(text)
            self._own = Position(int(fields["own"]))
            self._trials = {uid: decode_position(entry) for uid, entry in fields["trials"].items()}
            self._ended = {int(generation): set(_parse(ranges)) for generation, ranges in fields["ended"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):  # somebody has edited it: all is told again
            self._own, self._trials, self._ended = Position(), {}, {}

    def find(self, subject: Subject) -> Position:
        trial = subject.trial
        if trial is None:
            return self._own
        known = self._trials.get(trial.uid)
        if known is not None:
            return known
        is_covered = _has_index_alone(subject) and _has_ended(subject)
        if is_covered and trial.spec.index in self._ended.get(trial.status.run_generation, ()):
            return find_end(subject)
        return Position()


def _has_ended(subject: Subject) -> bool:
    state = subject.trial.status.state if subject.trial is not None else None
    return state is not None and state.is_finished


def _has_index_alone(subject: Subject) -> bool:
    """Whether no other Trial has had its index."""
    spec = subject.trial.spec if subject.trial is not None else None
    return spec is not None and spec.former is None and not is_added(spec.index)


def _encode(kept: _Kept) -> str:
    ended: dict[int, list[int]] = {}
    for generation, index in kept.ended.values():
        ended.setdefault(generation, []).append(index)
    fields = {
        "own": kept.own.transition if kept.own is not None else 0,
        "ended": {str(generation): format_indexes(indexes) for generation, indexes in sorted(ended.items())},
        "trials": {uid: encode_position(position) for uid, position in kept.trials.items() if uid not in kept.ended},
    }
    return json.dumps(fields, separators=(",", ":"))


def encode_position(position: Position) -> list[int | str]:
    """A position as JSON."""
    return [position.transition, position.result, position.curve, " ".join(sorted(position.checkpoints))]


def decode_position(entry: Any) -> Position:
    """Reads a position back.

    Raises:
        ValueError, TypeError, AttributeError: It is none.
    """
    transition, result, curve, checkpoints = entry
    return Position(int(transition), int(result), str(curve), frozenset(checkpoints.split()))


def _parse(ranges: str) -> Iterator[int]:
    for part in ranges.split(",") if ranges else ():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
