"""Writes the allow-list of pod fields in CEL, so that the chart's admission policy says what the operator says.

The tables of `podtune.api.pods.pod_template` are the one list; `docs/generate_template_fields.py` writes it into the
chart. The administrator's lists are no part of it: they are the chart's values, and the chart writes them.

An expression gives what is wrong, a line each, in the operator's words: path, value, remedy. CEL has no functions and
can't flatten lists, so lines go through one text: each level puts its part of the path before the lines from below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent

from podtune.api.pods.pod_checks import (
    NO_LIST,
    NO_MAP,
    UNSAFE_FIELDS,
    AllowFields,
    AskAdministrator,
    Check,
    CheckAll,
    CheckEach,
    Refuse,
    allow_anything,
    write_literal,
)

_NOTHING = "[]"
_FLATTEN = 'join("\\n").split("\\n").filter(line, line != "")'
_VALUE = re.compile(r"\bvalue\b")


def write_variables(allowed: Check) -> dict[str, str]:
    """A policy's variables, each with its expression; `faults` are the lines that say what is wrong.

    The policy has two of its own: `templates`, which may have a pod's spec each, and `places`, which are their paths.

    Args:
        allowed: The check of a pod's spec.

    Raises:
        NotImplementedError: A check is not made of those in `pod_checks`, so it is not known in CEL.
    """
    place = 'variables.places[variables.templates.indexOf(t)] + ".spec"'
    lines = _put_before(place, _write(allowed, "t.spec", 1))
    return {
        "unsafe": f"[{_write_names(sorted(UNSAFE_FIELDS))}]",
        "isUnsafe": write_literal(": %s is not allowed in a trial's pod; remove the field"),
        "isUnknown": write_literal(": %s is set in a field that does not exist; correct its name, or remove it"),
        "isNoMap": write_literal(f": %s {NO_MAP}"),
        "isNoList": write_literal(f": %s {NO_LIST}"),
        "faults": f'variables.templates.filter(t, has(t.spec)).map(t,\n{lines}.join("\\n")).{_FLATTEN}',
    }


def _write(check: Check, value: str, depth: int) -> str:
    """A list of lines: what is wrong with a value, each with the path below the value."""
    match check:
        case AllowFields(allowed):
            found = _join([_write_unknown(list(allowed), value), *_write_known(allowed, value, depth)])
            return f"type({value}) != map ? [variables.isNoMap.format([{value}])] :\n{found}"
        case CheckEach(item):
            name = f"item{depth}"
            below = _write(item, name, depth + 1)
            lines = _put_before(f'"[" + string({value}.indexOf({name})) + "]"', below)
            found = _NOTHING if below == _NOTHING else f'{value}.map({name}, {lines}.join("\\n")).{_FLATTEN}'
            return f"type({value}) != list ? [variables.isNoList.format([{value}])] : {found}"
        case CheckAll(checks):
            return _join([f"({_write(part, value, depth)})" for part in checks])
        case Refuse(_, cel, words):
            return f"{_VALUE.sub(value, cel)} ? {_say(value, words)} : {_NOTHING}"
        case AskAdministrator(_, form):
            return _write(form, value, depth)
    if check is not allow_anything:
        raise NotImplementedError(f"{check} has no CEL; make it of the checks in pod_checks")
    return _NOTHING


def _write_unknown(allowed: Sequence[str], value: str) -> str:
    """A line for each field that is not allowed."""
    words = "(name in variables.unsafe ? variables.isUnsafe : variables.isUnknown)"
    said = f'"." + name + {words}.format([{value}[name]])'
    return f"{value}.filter(name, !(name in [{_write_names(allowed)}])).map(name, {said})"


def _write_known(allowed: Mapping[str, Check], value: str, depth: int) -> Iterator[str]:
    """What is wrong with the fields that are allowed; those with the same check are written as one."""
    name = f"field{depth}"
    alike: dict[str, list[str]] = {}
    for field, check in allowed.items():
        alike.setdefault(_write(check, f"{value}[{name}]", depth + 1), []).append(field)
    for written, fields in alike.items():
        if written == _NOTHING:
            continue
        if len(fields) == 1:
            field = f"{value}.{fields[0]}"
            lines = _put_before(write_literal(f".{fields[0]}"), _write(allowed[fields[0]], field, depth + 1))
            yield f"(has({field}) && {field} != null ? {lines} : {_NOTHING})"
        else:
            there = f"{name} in {value} && {value}[{name}] != null"
            lines = _put_before(f'"." + {name}', written)
            yield f'[{_write_names(fields)}].filter({name}, {there}).map({name}, {lines}.join("\\n")).{_FLATTEN}'


def _put_before(path: str, lines: str) -> str:
    """The lines from below, with a part of the path before each."""
    return f"(\n{indent(lines, '  ')}\n).map(line, {path} + line)"


def _say(value: str, words: str) -> str:
    """A single line: a value, what is wrong with it, and the remedy."""
    return f"[{write_literal(f': %s {words}')}.format([{value}])]"


def _write_names(names: Sequence[str]) -> str:
    return ", ".join(map(write_literal, names))


def _join(lists: Sequence[str]) -> str:
    """Several lists of lines as one."""
    return " +\n".join(lines for lines in lists if lines != _NOTHING) or _NOTHING
