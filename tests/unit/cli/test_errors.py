"""The exit codes: one table, which all commands use."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import podtune.cli
from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.errors import MEANINGS, CliError, ExitStatus, KubeconfigError, RightsMissing, TimeRanOut
from podtune.kube.errors import ApiError, NotSent, Unanswered, make_refusal
from tests.component.api.wrong_manifests import GOOD
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.cli.test_command_table import COMMANDS

ASKING = {
    **dict.fromkeys(("list", "top", "doctor", "conformance"), ""),
    **dict.fromkeys(("describe", "watch", "trials", "best", "importance", "wait", "release"), "digits"),
    **dict.fromkeys(("logs", "why", "retry", "checkpoint", "clone", "curve"), "digits-7"),
    **dict.fromkeys(("pause", "resume", "stop", "results"), "digits-7"),
    **dict.fromkeys(("checkpoints list", "checkpoints verify", "checkpoints download"), "digits-7"),
    **dict.fromkeys(("enable", "disable"), "team-a"),
    "compare": "digits-7 digits-8",
    "try": "digits --set lr=0.1",
    "create": str(GOOD),
    "export": "digits -o -",
}
"""Commands that ask the API server first, with arguments that lead there."""
READING = {
    **dict.fromkeys(("validate", "plan", "simulate", "run", "detect", "import", "dashboard"), "no-such-file.yaml"),
    "restore": "file:///no/such/folder/e-1",
}
"""Those that read something else before."""
FORBIDDEN = make_refusal(403, "Forbidden", "no")
ENDINGS: Sequence[tuple[ApiError, ExitStatus]] = (
    (Unanswered("no"), ExitStatus.UNREACHABLE),
    (FORBIDDEN, ExitStatus.FORBIDDEN),
    (make_refusal(401, "Unauthorized", "no"), ExitStatus.FORBIDDEN),
    (make_refusal(404, "NotFound", "no"), ExitStatus.FAILED),
)
OPERATOR = Path(podtune.cli.__file__).parents[2]
FILES = sorted(Path(podtune.cli.__file__).parent.rglob("*.py"))


def test_codes_keep_their_numbers_and_each_is_explained() -> None:
    assert [int(code) for code in ExitStatus] == [0, 1, 2, 3, 4, 5, 6, 130]
    assert list(MEANINGS) == list(ExitStatus)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CliError("no"), ExitStatus.FAILED),
        (KubeconfigError("no"), ExitStatus.FAILED),
        (TimeRanOut("no"), ExitStatus.TIMED_OUT),
        (RightsMissing("no"), ExitStatus.FORBIDDEN),
        (NotSent("no"), ExitStatus.UNREACHABLE),
        (Unanswered("no"), ExitStatus.UNREACHABLE),
        (make_refusal(401, "Unauthorized", "no"), ExitStatus.FORBIDDEN),
        (make_refusal(403, "Forbidden", "no"), ExitStatus.FORBIDDEN),
        (make_refusal(404, "NotFound", "no"), ExitStatus.FAILED),
        (make_refusal(409, "Conflict", "no"), ExitStatus.FAILED),
        (KeyboardInterrupt(), ExitStatus.INTERRUPTED),
    ],
)
def test_an_error_ends_a_command_with_its_code(
    error: BaseException, code: ExitStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> object:
        raise error

    monkeypatch.setattr(api_client, "open_api", fail)
    assert cli.main(["list"]) == code


def test_each_command_is_held_to_the_table() -> None:
    assert COMMANDS.keys() == ASKING.keys() | READING.keys() | {"version", "completion"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command_line_has_its_code(name: str) -> None:
    assert cli.main([*name.split(), "--no-such-option"]) == ExitStatus.USAGE


@pytest.mark.parametrize("name", ASKING)
def test_what_ends_a_command_that_asks_the_api_server_decides_on_its_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_client, "open_api", interrupt)
    assert cli.main([*name.split(), *ASKING[name].split()]) == ExitStatus.INTERRUPTED
    for error, code in ENDINGS:
        expected = ExitStatus.DONE if name == "doctor" and error is FORBIDDEN else code  # it says what you may not see
        monkeypatch.setattr(api_client, "open_api", lambda *_, error=error: (make_failing_api(error), NAMESPACE))
        assert cli.main([*name.split(), *ASKING[name].split()]) == expected, error


@pytest.mark.parametrize("name", READING)
def test_a_file_that_is_not_there_ends_a_command_with_its_code(name: str) -> None:
    assert cli.main([*name.split(), *READING[name].split()]) == ExitStatus.FAILED


def test_whoever_reads_may_stop_before_the_end() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "podtune.cli.main", "--help"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, cwd=OPERATOR)
    os.close(writer)
    assert (done.returncode, done.stderr) == (ExitStatus.DONE, b"")


def interrupt(*_: object) -> object:
    raise KeyboardInterrupt


def make_failing_api(error: ApiError) -> object:
    """An API server of which all that is asked ends so."""

    def fail(*_: object, **__: object) -> object:
        raise error

    asked = ("get", "patch", "create", "delete", "execute", "list_all", "watch", "read_lines")
    return SimpleNamespace(**dict.fromkeys(asked, fail))


def list_literal_codes(tree: ast.AST) -> list[int]:
    """Lines in which a command ends with a number instead of a word of the table."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Exit"]
    return [call.lineno for call in calls if not call.args or isinstance(call.args[0], ast.Constant)]


def test_no_command_has_codes_of_its_own() -> None:
    found = {path.name: list_literal_codes(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}
