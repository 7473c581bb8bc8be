"""The benchmark of transfers: what they are held to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from e2e.bench.sync import sync_floor
from e2e.bench.sync.sync import LOADS, Load, Measured, Run, limits
from e2e.bench.sync.sync_tools import AWS, FLOOR, RCLONE, podtune
from e2e.bench.targets import TARGETS

LARGE, SEVERAL, SMALL = LOADS


def took(load: Load, tool: str, up: float, down: float) -> Measured:
    return Measured(load, tool, [Run(up, 0, 0, 0)], [Run(down, 0, 0, 0)])


def found(*items: Measured) -> dict[str, float]:
    return {figure.name: figure.value for figure in limits(items)}


def test_the_faster_tool_is_the_limit_unless_copying_and_hashing_takes_longer() -> None:
    figures = found(
        took(LARGE, podtune("Packed"), 6, 6),
        took(LARGE, FLOOR, 3, 3),
        took(LARGE, AWS, 5, 9),
        took(LARGE, RCLONE, 60, 2),
    )
    assert figures == {
        f"{LARGE.name}: up, to what is possible": 6 / 5,
        f"{LARGE.name}: up, to the faster tool": 6 / 5,
        f"{LARGE.name}: down, to what is possible": 6 / 3,
        f"{LARGE.name}: down, to the faster tool": 6 / 2,
    }


def test_many_small_files_are_held_to_it_in_packs_and_without_other_tools_to_the_floor() -> None:
    assert not SEVERAL.takes(podtune("Packed"))
    assert SMALL.takes(podtune("Packed"))
    figures = found(
        took(SMALL, podtune("Plain"), 30, 30), took(SMALL, podtune("Packed"), 3, 2), took(SMALL, FLOOR, 2, 2)
    )
    assert figures == {
        f"{SMALL.name}: up, to what is possible": 1.5,
        f"{SMALL.name}: down, to what is possible": 1.0,
    }


def test_each_load_has_targets_when_it_is_measured_whole() -> None:
    for load in LOADS:
        for name in found(took(load, podtune(load.layout), 1, 1), took(load, FLOOR, 1, 1)):
            assert name in TARGETS


def test_a_share_of_a_load_has_fewer_files_of_the_same_size() -> None:
    assert SMALL.scaled(0.125) == Load(SMALL.name, 625, 20_000, "Packed")
    assert LARGE.scaled(0.125).size == 128 << 20


@pytest.mark.parametrize("size", [0, 1, sync_floor.PIECE, sync_floor.PART + 1])
def test_the_floor_copies_all_of_a_file(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(os.urandom(size))
    monkeypatch.setattr(sys, "argv", ["sync_floor", str(tmp_path / "source"), str(tmp_path / "target")])
    sync_floor.main()
    assert (tmp_path / "target" / "file").read_bytes() == (tmp_path / "source" / "file").read_bytes()
