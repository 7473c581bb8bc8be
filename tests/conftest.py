"""For all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator

import hypothesis
import pytest

# As in the operator's image: on small matrices several threads are slower, and sums depend on how many there are. It
# counts only from before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A machine may be busy: only the tests' own timeout ends what takes too long. In CI Hypothesis does so by itself, and
# draws the same examples each time. Everyday runs draw half of what it would; `make test-long` draws all.
CI = "CI" in os.environ
hypothesis.settings.register_profile(
    "podtune",
    hypothesis.settings.get_profile("ci" if CI else "default"),
    deadline=None,
    max_examples=100 if os.environ.get("PODTUNE_ALL_EXAMPLES") else 50,
)
hypothesis.settings.load_profile("podtune")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Has nobody look for garbage while tests are collected: there is hardly any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Has the garbage collector pass over the thousands of tests that there are until the end, and what they import."""
    gc.collect()
    gc.freeze()
