"""The page about commands has each of them, with all that it takes."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from docs.reference_pages.command_line import SHARED, command_line_page
from podtune.cli.command_table import GROUPS, PODTUNE, make_program

PAGE = command_line_page()
COMMANDS = [*PODTUNE.commands, *(f"{group} {name}" for group in GROUPS for name in GROUPS[group].commands)]


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_section_of_a_command_has_every_option_that_its_help_has(command: str) -> None:
    words = command.split()
    environment = {"COLUMNS": "400", "TERM": "dumb"}
    shown = CliRunner().invoke(make_program(words), [*words, "--help"], env=environment).output
    options = set(re.findall(r"^[\W]*(--[\w-]+)", shown, re.MULTILINE)) - {"--help"}
    told = set(re.findall(r"`(--[\w-]+)`", section(command)))
    assert options - set(SHARED) <= told
    assert f"kubectl podtune {command}" in section(command)


def test_options_of_many_commands_are_described_once() -> None:
    for option in SHARED:
        assert PAGE.count(f"| `{option}`") == 1


def test_the_overview_leads_to_each_command() -> None:
    for command in COMMANDS:
        assert f"| [`{command}`](#{command.replace(' ', '-')}) |" in PAGE
