from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from podtune.cli.command_table import GROUPS, PODTUNE, Command, make_program

COMMANDS = {
    **PODTUNE.commands,
    **{f"{group} {name}": each for group in GROUPS for name, each in GROUPS[group].commands.items()},
}
LOADED = """
import sys
from podtune.cli.command_table import make_program
make_program({words!r})
print(*sorted(sys.modules))
"""


def run_help(*words: str) -> str:
    answer = CliRunner().invoke(make_program(words), [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert answer.exit_code == 0
    return answer.output


def list_modules_loaded_for(*words: str) -> set[str]:
    command = [sys.executable, "-c", LOADED.format(words=words)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name: str) -> None:
    command: Command = COMMANDS[name]
    assert command.help == (inspect.getdoc(command.load()) or "").splitlines()[0]
    assert command.help[:40] in run_help(*name.split()[:-1])
    assert command.help[:40] in run_help(*name.split())


def test_options_are_those_of_the_command() -> None:
    assert "--all-namespaces" in run_help("list")
    assert "--path" not in run_help("list")


def test_a_command_is_imported_when_it_is_named() -> None:
    commands = "podtune.cli.commands"
    assert not any(module.startswith(commands) for module in list_modules_loaded_for("--help"))
    loaded = list_modules_loaded_for("list")
    assert f"{commands}.show" in loaded
    assert f"{commands}.simulate" not in loaded
    assert f"{commands}.stored.checkpoint_list" not in loaded, "that is `checkpoints list`"
    assert f"{commands}.stored.checkpoint_list" in list_modules_loaded_for("checkpoints", "list")
    assert {"numpy", "optuna", "aiohttp", "boto3", "kubernetes", "rich"}.isdisjoint(loaded)


def test_the_version_is_printed_without_the_models() -> None:
    loaded = list_modules_loaded_for("version")
    assert {"pydantic", "yaml", "re2", "rich"}.isdisjoint(loaded)
