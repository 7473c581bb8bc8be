"""The collector of cycles: what it has looked at once it passes over, and all the same nothing is lost for good."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from podtune.app import garbage


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class _Trial:
    """Something that may be part of a cycle."""

    other: _Trial


def _cycle() -> tuple[_Trial, weakref.ref[_Trial]]:
    one, other = _Trial(), _Trial()
    one.other, other.other = other, one
    return one, weakref.ref(one)


def test_what_was_looked_at_once_is_not_looked_at_again() -> None:
    garbage.collect_in_small_portions()
    kept = [_Trial() for _ in range(1000)]
    gc.collect()
    looked_at = {id(thing) for thing in gc.get_objects()}
    assert looked_at.isdisjoint(map(id, kept))


def test_a_cycle_that_nobody_refers_to_any_more_goes_at_the_next_look() -> None:
    garbage.collect_in_small_portions()
    one, reference = _cycle()
    del one
    gc.collect()
    assert reference() is None


def test_a_cycle_that_was_looked_at_while_it_was_of_use_goes_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "LOOKS", 3)
    garbage.collect_in_small_portions()
    one, reference = _cycle()
    gc.collect()
    del one
    gc.collect()
    assert reference() is not None
    for _ in range(2):
        gc.collect()
    assert reference() is None
