"""Nothing that the documentation tells readers to type goes untested without saying why."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from docs.fenced_blocks import ROOT, Block, find_blocks, find_session, is_as_shown, list_pages

BLOCKS = [block for page in list_pages() for block in find_blocks(page)]
COMMANDS = [block for block in BLOCKS if block.is_commands]
END_TO_END = (ROOT / "e2e" / "tests" / "test_documented_commands.py").read_text(encoding="utf-8")
SESSIONS = set(re.findall(r'run_session\("(\w+)"\)', END_TO_END))


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.place)
def test_each_block_of_commands_says_what_runs_it_or_why_nothing_does(block: Block) -> None:
    assert block.run_by or block.not_run, (
        f"{block.place}: put `<!-- run: SESSION or test file -->` or `<!-- not run: why -->` above it"
    )
    if "/" in block.run_by:
        assert (ROOT / block.run_by).is_file(), f"{block.place}: {block.run_by} is not there"
    elif block.run_by:
        assert block.run_by in SESSIONS, f"{block.place}: no end-to-end test runs the session {block.run_by}"


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.place)
def test_each_test_that_a_reason_names_is_there(block: Block) -> None:
    for path in re.findall(r"`((?:e2e|tests)/[^`]+)`", block.not_run):
        assert (ROOT / path).is_file(), f"{block.place}: {path} is not there"


def test_what_is_shown_as_printed_follows_commands_that_are_run() -> None:
    for before, block in pairwise(BLOCKS):
        if block.is_output:
            assert before.page == block.page, block.place
            assert before.run_by in SESSIONS, f"{block.place}: no end-to-end test compares it"


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("pod/a created\n", "pod/a created\n", True),
        ("pod/a created\n", "pod/b created\n", False),
        ("pod/… created\n", "pod/b created\n", True),
        ("NAME  BEST\na  …\n", "NAME BEST\na    0.5\n", True),
        ("NAME\n…\n", "NAME\na\nb\n", True),
        ("NAME\n…\n", "OTHER\na\n", False),
        ("a\n", "a\nb\n", False),
        ("a.b\n", "axb\n", False),
    ],
)
def test_a_page_shows_what_is_printed_but_for_what_it_leaves_open(shown: str, printed: str, is_same: bool) -> None:
    assert is_as_shown(shown, printed) is is_same


@pytest.mark.parametrize("session", sorted(SESSIONS))
def test_each_session_has_commands(session: str) -> None:
    assert any(block.commands() for block in find_session(session))


def test_a_block_knows_its_commands() -> None:
    page = ROOT / "README.md"
    typed = Block(page, 1, "sh", "# a remark\nkubectl get \\\n  pods  # all\n\nkubectl describe pod x\n")
    shown = Block(page, 1, "console", "$ kubectl get pods\nNAME  READY\n$ ls\n")
    assert [command.split() for command in typed.commands()] == [
        ["kubectl", "get", "pods", "#", "all"],
        ["kubectl", "describe", "pod", "x"],
    ]
    assert shown.commands() == ["kubectl get pods", "ls"]
