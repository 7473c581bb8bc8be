"""Reads metrics as programs expose them to Prometheus: its text format, and OpenMetrics, whose samples look alike.

See https://prometheus.io/docs/instrumenting/exposition_formats/. Only samples are read, one a line; of what surrounds
them nothing matters here. A line that can't be read is passed over, and the others are taken: a program that counts its
metrics wrongly is to be tuned all the same. Timestamps and exemplars are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_NAME = re.compile(r'[ \t]*([^\s{}"#,=]*)[ \t]*(\{)?')
_LABEL = re.compile(rf'[ \t]*(?:([^\s{{}}"#,=]+)|{_QUOTED})[ \t]*(?:=[ \t]*{_QUOTED})?[ \t]*(,|(?=\}}))')
_END = re.compile(r"[ \t]*\}")
_VALUE = re.compile(r"[ \t]*(\S+)(?=[ \t]|$)")
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric.

    Attributes:
        name: As it stands on its line: that of a counter ends in `_total`, say.
        labels: In the order of their names; without those that are empty, which are as good as missing.
        value: A number, also NaN or an infinity.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def parse_exposition(text: str) -> Iterator[Sample]:
    """Reads all samples of a text, in their order."""
    for line in text.split("\n"):
        if sample := _parse_sample(line.rstrip("\r")):
            yield sample


def _parse_sample(line: str) -> Sample | None:
    """The sample on a line; None where there is none."""
    head = _NAME.match(line)
    assert head is not None  # it matches nothing, too
    name, position = head[1], head.end()
    labels: dict[str, str] = {}
    if head[2]:
        while label := _LABEL.match(line, position):
            position = label.end()
            key = label[1] or _unescape(label[2] or "")
            if label[3] is not None:
                labels[key] = _unescape(label[3])
            elif not name:  # names that are not of the old alphabet stand between the braces
                name = key
            else:
                return None
        end = _END.match(line, position)
        if end is None:
            return None
        position = end.end()
    value = _VALUE.match(line, position)
    if not name or value is None:
        return None
    try:
        return Sample(name, tuple(sorted(pair for pair in labels.items() if pair[1])), float(value[1]))
    except ValueError:
        return None


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)
