"""The operator is asked to end while it starts, as process 1 of its container."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.unit.process_1 import AS_PROCESS_1, start_as_process_1

PROGRAM = f"""{AS_PROCESS_1}
import sys
from podtune.app.entry import start_operator

asked_at, by = sys.argv.pop(1), signal.Signals(int(sys.argv.pop(1)))

class AskedToEnd:
    def find_spec(self, name, path=None, target=None):
        if name == asked_at:
            os.kill(os.getpid(), by)

sys.meta_path.insert(0, AskedToEnd())
start_operator()
"""
"""Gets a signal when a module is imported."""
AT_ONCE = 60.0
"""Seconds in which it ends on the slowest machine; the kubelet would wait for half as long."""


@pytest.mark.parametrize(
    ("asked_at", "by"), [("podtune.app.main", 15), ("podtune.app.operator", 2)], ids=["at once", "while it imports"]
)
def test_a_signal_in_its_first_moments_ends_it_in_good_order(asked_at: str, by: int, tmp_path: Path) -> None:
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PODTUNE_AGENT_IMAGE": "agent:1",
        "KUBECONFIG": str(tmp_path / "none"),  # it would end with 1 if it got that far
    }
    begun = time.monotonic()
    process = start_as_process_1([sys.executable, "-c", PROGRAM, asked_at, str(by)], environ)
    said, log = process.communicate(timeout=AT_ONCE)
    assert (process.returncode, said, log) == (0, b"", b""), f"after {time.monotonic() - begun:.1f} s"
