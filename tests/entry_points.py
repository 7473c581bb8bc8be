"""Packages that tests have installed: what they offer to Podtune by entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint

import pytest

from podtune.tuning import plugins


def install(patch: pytest.MonkeyPatch, *offered: EntryPoint) -> None:
    """Has Podtune find these entry points and no others, until the patch is undone."""

    def find(*, group: str) -> list[EntryPoint]:
        return [entry for entry in offered if entry.group == group]

    patch.setattr(plugins, "entry_points", find)
    patch.setattr("importlib.metadata.entry_points", find)  # agents import it only where they need it


def make_installation(*offered: EntryPoint) -> Callable[[], Iterator[None]]:
    """A fixture that has them installed for all tests of the module that names it."""

    @pytest.fixture(autouse=True, scope="module")
    def installed() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            install(patch, *offered)
            yield

    return installed
