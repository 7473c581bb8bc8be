"""The exit codes: one table, which all commands use."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import podtune.cli
from podtune.cli import main as cli
from podtune.cli.client import api_client
from podtune.cli.errors import MEANINGS, CliError, ExitStatus, KubeconfigError, TimeRanOut
from podtune.kube.errors import NotSent, Unanswered, make_refusal

FILES = sorted(Path(podtune.cli.__file__).parent.rglob("*.py"))


def test_codes_keep_their_numbers_and_each_is_explained() -> None:
    assert [int(code) for code in ExitStatus] == [0, 1, 2, 3, 4, 5, 130]
    assert list(MEANINGS) == list(ExitStatus)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CliError("no"), ExitStatus.FAILED),
        (KubeconfigError("no"), ExitStatus.FAILED),
        (TimeRanOut("no"), ExitStatus.TIMED_OUT),
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


def test_a_wrong_command_line_has_its_code() -> None:
    assert cli.main(["list", "--no-such-option"]) == ExitStatus.USAGE


def list_literal_codes(tree: ast.AST) -> list[int]:
    """Lines in which a command ends with a number instead of a word of the table."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Exit"]
    return [call.lineno for call in calls if not call.args or isinstance(call.args[0], ast.Constant)]


def test_no_command_has_codes_of_its_own() -> None:
    found = {path.name: list_literal_codes(ast.parse(path.read_text(encoding="utf-8"))) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}
