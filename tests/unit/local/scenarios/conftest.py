"""For tests of whole runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.scenarios.process_world import ProcessWorld


@pytest.fixture
def over_processes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has a scenario of the runner's run over processes: what it calls `Simulation` is a `ProcessWorld`."""
    worlds: list[ProcessWorld] = []

    def make(*arguments: Any, **options: Any) -> ProcessWorld:
        path = tmp_path / str(len(worlds))
        path.mkdir()
        worlds.append(ProcessWorld(path, monkeypatch, *arguments, **options))
        return worlds[-1]

    monkeypatch.setitem(request.function.__globals__, "Simulation", make)
    yield
    for world in worlds:
        world.close()
