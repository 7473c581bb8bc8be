"""Each threat has a control, and tests that exist."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from docs.threat_model.generate import PAGE, ROOT, build_page, read_threats

THREATS = [threat for attacker in read_threats() for threat in attacker["threats"]]


@cache
def list_tests(path: str) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize("threat", THREATS, ids=lambda threat: str(threat["threat"])[:60])
def test_each_threat_has_a_control_and_tests_that_there_are(threat: dict[str, object]) -> None:
    assert threat["control"]
    tests = threat["tests"]
    assert isinstance(tests, list)
    assert tests
    named = [str(test).partition("::") for test in tests]
    assert [(path, name) for path, _, name in named if name not in list_tests(path)] == []


def test_no_threat_stands_there_twice() -> None:
    said = [threat["threat"] for threat in THREATS]
    assert len(said) == len(set(said))


def test_the_page_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == build_page()
