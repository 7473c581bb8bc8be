"""The page about the values of the chart, made of its values.yaml with its comments, and of its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docs.reference_pages.tables import make_table

CHART = Path(__file__).resolve().parents[2] / "charts" / "podtune"
DASHBOARD = "dashboard."
INTRODUCTION = """# Values of the Helm chart

The chart `charts/podtune` installs the operator, and the dashboard if you ask for it. A value that the chart does not
know, or one of another type, is refused. [Install it securely](../how-to/secure-install.md) says which ones you need.
"""
_LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?P<rest>.*)$")
_COMMENT = re.compile(r"^ *# ?(?P<text>.*)$")
MARK = "-- "


@dataclass(frozen=True, slots=True)
class ChartValue:
    """A value of the chart.

    Attributes:
        name: With dots, such as `image.tag`.
        meaning: The comment above it; empty where it has none.
        default: As it is parsed.
    """

    name: str
    meaning: str
    default: Any


def chart_values_page() -> str:
    """The page's text."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = read_values((CHART / "values.yaml").read_text(encoding="utf-8"))
    own = [value for value in values if not value.name.startswith(DASHBOARD)]
    of_dashboard = [value for value in values if value.name.startswith(DASHBOARD)]
    parts = [INTRODUCTION, "## The operator\n", _make_rows(own, schema), "## The dashboard\n"]
    return "\n".join([*parts, _make_rows(of_dashboard, schema)])


def read_values(text: str) -> list[ChartValue]:
    """All values that have no others below them, in the order of the file.

    A comment that begins with `# --` describes the value below it. A value below a name that has such a comment itself
    is not listed: the name is.
    """
    values, root = list[ChartValue](), yaml.safe_load(text)
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if said := _COMMENT.match(line):
            comment = _take_comment(comment, said["text"])
            continue
        found = _LINE.match(line)
        if found is None:
            comment = []
            continue
        path = [*path[: len(found["indent"]) // 2], found["name"]]
        if any(".".join(path).startswith(f"{value.name}.") for value in values):
            continue
        default = _look_up(root, path)
        has_none_below = not isinstance(default, dict) or bool(found["rest"].strip())
        if comment or has_none_below:
            values.append(ChartValue(".".join(path), " ".join(comment), default))
        comment = []
    return values


def _take_comment(former: list[str], text: str) -> list[str]:
    """The comment with another line; one that does not begin with the mark is for readers of the file alone."""
    if text.startswith(MARK):
        return [text.removeprefix(MARK)]
    return [*former, text] if former else []


def _look_up(root: Any, path: Sequence[str]) -> Any:
    for name in path:
        root = root[name]
    return root


def _make_rows(values: Sequence[ChartValue], schema: Mapping[str, Any]) -> str:
    rows = [(f"`{v.name}`", _name_type(v, schema), _write_default(v), v.meaning) for v in values]
    return make_table(("value", "type", "default", "meaning"), rows)


def _name_type(value: ChartValue, schema: Mapping[str, Any]) -> str:
    """The type that the schema says, with its bounds; what is an object of Kubernetes has none further."""
    for name in value.name.split("."):
        schema = schema["properties"][name]
    return " or ".join(_name_schema(each) for each in schema.get("oneOf", [schema]))


def _name_schema(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(map(_name_word, schema["enum"]))
    if "const" in schema:
        return _name_word(schema["const"])
    if schema["type"] == "array":
        return f"list of {schema['items']['type']}s"
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return ", ".join([" or ".join(kinds), *_name_bounds(schema)])


def _name_word(word: str) -> str:
    return f"`{word}`" if word else "empty"


def _name_bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    if "minimum" in schema:
        yield f"at least {schema['minimum']:,}"
    if "exclusiveMinimum" in schema:
        yield f"above {schema['exclusiveMinimum']:,}"
    if "maximum" in schema:
        yield f"at most {schema['maximum']:,}"


def _write_default(value: ChartValue) -> str:
    """As it is written on one line; what is empty is left out."""
    if value.default in ("", [], {}, None):
        return ""
    written = yaml.safe_dump(value.default, default_flow_style=True, width=10_000).removesuffix("...\n").strip()
    return f"`{written}`"
