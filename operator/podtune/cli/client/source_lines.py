"""Finds the lines of a manifest that a field stands in, and fields that stand there twice."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from podtune.api.base import Problem


def find_line(root: yaml.Node, field: str) -> int:
    """The line, from 1, of a field such as `spec.parameters[0].float`; if it is missing, of the next above it."""
    node, line, rest = root, _read_line(root), field
    while (step := _descend(node, rest)) is not None:
        node, line, rest = step
    return line


def find_repeated_fields(node: yaml.Node, path: str = "") -> Iterator[tuple[Problem, int]]:
    """Fields that one map has twice, each with the line of the second: a reader would take one and drop the other."""
    if isinstance(node, yaml.SequenceNode):
        for position, entry in enumerate(node.value):
            yield from find_repeated_fields(entry, f"{path}[{position}]")
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            field = f"{path}.{key.value}" if path else str(key.value)
            line = _read_line(key)
            if key.value in lines and key.tag != "tag:yaml.org,2002:merge":
                what = f"is in this map twice, in line {lines[key.value]} too; the last one counts, remove the other"
                yield Problem(field, what), line
            lines.setdefault(key.value, line)
            yield from find_repeated_fields(value, field)


def _descend(node: yaml.Node, rest: str) -> tuple[yaml.Node, int, str] | None:
    """One step along a path: what it leads to, the line of that, and the path from there."""
    if not rest:
        return None
    if isinstance(node, yaml.SequenceNode):
        number, closed, after = rest.removeprefix("[").partition("]")
        if not (rest.startswith("[") and closed and number.isdecimal() and int(number) < len(node.value)):
            return None
        below = node.value[int(number)]
        return below, _read_line(below), after
    if not isinstance(node, yaml.MappingNode):
        return None
    # Keys may have dots: of those that fit, the longest is meant.
    fitting = [(len(written), key, value) for key, value in node.value if (written := _match_key(key.value, rest))]
    if not fitting:
        return None
    length, key, value = max(fitting, key=lambda found: found[0])
    return value, _read_line(key), rest[length:]


def _match_key(key: object, rest: str) -> str:
    """How a path that continues with this key has written it; empty where it does not."""
    for written in (f".{key}", f"{key}", f'["{key}"]'):
        if rest.startswith(written) and rest[len(written) :][:1] in ("", ".", "["):
            return written
    return ""


def _read_line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
