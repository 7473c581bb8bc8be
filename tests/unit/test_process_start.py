"""Each process of ours in its first moments, as process 1 of its container."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

import pytest

from tests.unit.process_1 import AS_PROCESS_1, start_as_process_1

PROGRAM = f"""{AS_PROCESS_1}
import resource, sys
from {{module}} import {{start}}

asked_at, by = sys.argv.pop(1), int(sys.argv.pop(1))

class InTheMiddle:
    def find_spec(self, name, path=None, target=None):
        if name == asked_at:
            if by:
                os.kill(os.getpid(), by)
            else:
                print(*resource.getrlimit(resource.RLIMIT_CORE), flush=True)
                os._exit(0)

sys.meta_path.insert(0, InTheMiddle())
{{start}}()
"""
"""Gets a signal when a module is imported; without one, tells then how large a core dump may be."""
OPERATOR = PROGRAM.format(module="podtune.app.entry", start="start_operator")
DASHBOARD = PROGRAM.format(module="podtune.dashboard.__main__", start="start_dashboard")
AGENT = PROGRAM.format(module="podtune.agent.entry", start="start")
AT_ONCE = 60.0
"""Seconds in which it ends on the slowest machine; the kubelet would wait for half as long."""


def run(program: str, asked_at: str, by: int, folder: Path) -> tuple[int, bytes, bytes]:
    """Runs a program until it ends; returns its exit code, and what it has printed and logged."""
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PODTUNE_AGENT_IMAGE": "agent:1",
        "KUBECONFIG": str(folder / "none"),  # it would end with 1 if it got that far
    }
    process = start_as_process_1([sys.executable, "-c", program, asked_at, str(by)], environ)
    said, log = process.communicate(timeout=AT_ONCE)
    return process.returncode, said, log


@pytest.mark.parametrize(
    ("program", "asked_at", "by"),
    [
        (OPERATOR, "podtune.app.main", 15),
        (OPERATOR, "podtune.app.operator", 2),
        (DASHBOARD, "podtune.dashboard.main", 15),
        (DASHBOARD, "podtune.dashboard.app", 2),
    ],
    ids=["operator, at once", "operator, while it imports", "dashboard, at once", "dashboard, while it imports"],
)
def test_a_signal_in_its_first_moments_ends_it_in_good_order(
    program: str, asked_at: str, by: int, tmp_path: Path
) -> None:
    begun = time.monotonic()
    assert run(program, asked_at, by, tmp_path) == (0, b"", b""), f"after {time.monotonic() - begun:.1f} s"


@pytest.mark.parametrize(
    ("program", "asked_at"),
    [(OPERATOR, "podtune.app.main"), (DASHBOARD, "podtune.dashboard.main"), (AGENT, "podtune.agent.main")],
    ids=["operator", "dashboard", "agent"],
)
def test_it_leaves_no_core_dump_whenever_it_crashes(program: str, asked_at: str, tmp_path: Path) -> None:
    """The kernel takes a limit of 1 for none at all, also where a program is given the dumps."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("nobody leaves core dumps here")
    assert run(program, asked_at, 0, tmp_path) == (0, b"1 1\n", b"")
