"""The page about the protocol has every field that agent and operator send, and what it is for."""

from __future__ import annotations

from dataclasses import fields

import pytest

from docs.reference_pages.agent_protocol import agent_protocol_page, list_models, read_attributes, read_variables
from podtune.protocol import agent_environment

PAGE = agent_protocol_page()


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("model", list_models(), ids=lambda model: model.__name__)
def test_every_field_is_described(model: type) -> None:
    for each in fields(model):
        rows = [row for row in section(model.__name__).splitlines() if row.startswith(f"| `{each.name}` |")]
        assert len(rows) == 1
        assert not rows[0].endswith("|  |"), f"{model.__name__}.{each.name} has no meaning"


def test_types_are_those_of_json_and_lead_to_other_models() -> None:
    assert "| `results` | list of [Result](#result) |" in section("Report")
    assert "| `checkpoint` | [CheckpointRef](#checkpointref) or null |" in section("Restored")
    assert "| `decision` | one of `CONTINUE`, `PAUSE`, `STOP` | `CONTINUE` |" in section("Reply")
    assert "| `metrics` | object of number, text or boolean | *required* |" in section("Result")
    assert "| `complete` | boolean | `true` |" in section("FinalCommit")


def test_continued_lines_of_a_docstring_are_read() -> None:
    assert read_attributes("    a: One,\n        two.\n    b: Three.\n") == {"a": "One, two.", "b": "Three."}


def test_variables_without_a_description_are_left_out() -> None:
    named = dict(read_variables(agent_environment))
    assert named["PODTUNE_TOKEN_FILE"].startswith("The projected token")
    assert "PODTUNE_NAMESPACE" not in named
