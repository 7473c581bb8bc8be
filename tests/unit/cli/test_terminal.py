"""What commands print on terminals of any width, in a pipe and without colours."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from podtune.cli import main as cli
from podtune.cli import output
from podtune.cli.client import api_client
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.cli.shown_cluster import SEPARATOR, make_cluster
from tests.unit.cli.test_command_table import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
LONG_NAME = "vision-resnet50-imagenet"
TABLES = ("list", "list -o wide", "describe {}", "trials {}", "trials {} -o wide", "compare {}-1 {}-2 {}-3 {}-4",
          "curve {}-1 {}-2", "top", "top -o wide", "best {}",
          "checkpoints list {}", "checkpoints list {} -o wide", "describe {} -o wide",
          "compare {}-1 {}-2 {}-3 {}-4 -o wide")  # fmt: skip
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "experiment.yaml"
PICTURES = (f"plan {DIGITS} --price-per-gpu-hour 2.5", f"simulate {DIGITS} --function branin")
"""Tables that rich draws, in which it cuts what has no room."""
ELSEWHERE = {"importance", "watch", "detect", "conformance"}
"""Tables that their own tests look at, at the same widths: they need an experiment of another kind, or none."""
SENTENCES = {
    *("logs", "results", "why", "wait", "validate", "doctor", "completion", "version", "checkpoints verify"),
    *("create", "pause", "resume", "stop", "checkpoint", "retry", "try", "clone", "release", "checkpoints download"),
    *("export", "import", "restore", "run", "dashboard", "enable", "disable"),
}
"""Commands that print no table, but lines: sentences, a program's output, or CSV."""
PATIENCE = 60.0
ESCAPE = "\x1b["


@pytest.mark.parametrize("width", [60, 200, None])
@pytest.mark.parametrize("name", ["digits", LONG_NAME])
@pytest.mark.parametrize("table", TABLES)
def test_tables_fit_terminals_and_are_whole_in_pipes(
    table: str, name: str, width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = make_cluster(name)
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (api, namespace or NAMESPACE))
    monkeypatch.setattr(output, "find_width", lambda: width)
    code = cli.main(table.replace("{}", name).split())
    written = capsys.readouterr()
    assert code == 0, written.err
    assert ESCAPE not in written.out
    lines = written.out.splitlines()
    assert lines
    if width is not None and "wide" not in table:
        assert max(map(len, lines)) <= width
    if width != 60:
        assert "no room for" not in written.out
        assert "…" not in written.out


@contextmanager
def open_terminal(width: int) -> Iterator[tuple[int, int]]:
    """A pseudo-terminal: the side that people look at, and the side that programs write to."""
    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        yield ours, theirs
    finally:
        for end in (ours, theirs):
            os.close(end)


def run_in_terminal(width: int, *lines: str, **environment: str) -> dict[str, list[str]]:
    """Runs commands in a terminal; returns what each has written."""
    inherited = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    command = [sys.executable, "-m", "tests.unit.cli.shown_cluster", *lines]
    with open_terminal(width) as (ours, theirs):
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs,
            env=inherited | {"TERM": "xterm-256color"} | environment,
        )  # fmt: skip
        try:
            written = read_until_end(ours, process)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, written
    blocks = written.replace("\r\n", "\n").split(SEPARATOR)[1:]
    return {block.partition("\n")[0]: block.partition("\n")[2].splitlines() for block in blocks}


def read_until_end(ours: int, process: subprocess.Popen[bytes]) -> str:
    """All that a program writes until it ends; what is left in the terminal then is read, too."""
    written, deadline = b"", time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        while select.select([ours], [], [], 0 if has_ended else 0.1)[0]:
            written += os.read(ours, 1 << 16)
        if has_ended:
            return written.decode()
    raise AssertionError(f"it has not ended; so far: {written!r}")


def strip_colours(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def test_each_table_is_looked_at() -> None:
    looked_at = {name for line in (*TABLES, *PICTURES) for name in COMMANDS if f"{line} ".startswith(f"{name} ")}
    assert looked_at & SENTENCES == set()
    assert COMMANDS.keys() == looked_at | ELSEWHERE | SENTENCES, "say of a new command what it prints"


def test_a_terminal_gets_tables_that_fit_and_colours() -> None:
    tables = [table.replace("{}", "digits") for table in TABLES]
    written = run_in_terminal(60, *tables, *PICTURES)
    for line, lines in written.items():
        assert "-o wide" in line or max(len(strip_colours(each)) for each in lines) <= 60, line
    assert written["list"][1].split()[:3] == ["digits", "Running", "9/24"]
    assert any(line.startswith("(no room for ") for line in written["trials digits"])
    assert any(ESCAPE in line for line in written["curve digits-1 digits-2"])
    assert not any("…" in line for picture in PICTURES for line in written[picture]), "each column is named whole"


def test_nobody_who_wants_no_colour_gets_any() -> None:
    tables = [table.replace("{}", "digits") for table in TABLES]
    written = run_in_terminal(200, *tables, *PICTURES, NO_COLOR="1")
    for line, lines in written.items():
        assert not any(re.search(r"\x1b\[[0-9;]*3[0-7]", each) for each in lines), line
        assert "-o wide" in line or max(len(strip_colours(each)) for each in lines) <= 200, line
    curves = map(strip_colours, written["curve digits-1 digits-2"])
    assert any(line.rstrip().endswith(" a") for line in curves), "letters tell curves apart"
