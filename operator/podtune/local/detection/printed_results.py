r"""Expressions for `results.stdout`, made from what a program has printed.

What the lines of one form have in common makes an expression, such as `epoch=(?P<epoch>\d+) loss=(?P<loss>\S+)`.
Where a result has several lines, the expression finds the name of each number as well. It is tried on all lines by the
agent's own parser: what is said of it is what the agent would find.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from podtune.agent.results.stdout_results import make_log_parser
from podtune.local.detection.detected_sources import DetectedSource, make_detected_source
from podtune.local.detection.metric_names import find_mode, is_beside, is_time
from podtune.local.detection.printed_fields import PRINTED_NUMBER, LineForm, find_forms
from podtune.protocol.messages import MetricValue

_MOST_FORMS = 30
_SAMPLE = 1000
"""Lines in which names are looked for that end as others do."""
_MOST_BACK = 40
"""Lines from a row of a table back to its header."""
_LONGEST_PATTERN = 512
_COUNTED = "iteration"
_NUMBERS = (r"[-+.\w]+", r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
"""How a number is found, the one that reads better first."""
_WHOLE = r"\d+"
_ROW = re.compile(rf"\s*\d+(?:\s+(?:{PRINTED_NUMBER}|[\d:.]+[a-z]?))+\s*")
_COLUMNS = re.compile(r"\s{2,}|\t")
_SPACE = re.compile(r"\s+")
_SPACES = re.compile(r"(?:\\?\s)+")
_HARMLESS = re.compile(r"\\([-#&~ ])")


@dataclass(frozen=True, slots=True)
class PrintedResults:
    """An expression, and what the agent finds by it.

    Attributes:
        pattern: For `results.stdout.pattern`.
        last: For `results.stdout.last`; empty where there is none.
        results: What is found.
    """

    pattern: str
    last: str
    results: Sequence[Mapping[str, MetricValue]]

    @property
    def settings(self) -> Mapping[str, str]:
        """The content of `results.stdout`."""
        return {"pattern": self.pattern, **({"last": self.last} if self.last else {})}


def find_printed_results(lines: Sequence[str], wanted: str) -> DetectedSource | None:
    """What `results.stdout` would best be; None where no result is found.

    Args:
        lines: What the program has printed.
        wanted: The objective that is asked for; empty where any will do.
    """
    made = (make_detected_source("stdout", each.settings, each.results, wanted) for each in propose_patterns(lines))
    found = filter(None, made)
    return max(found, key=lambda one: (one.rank, len(one.results), len(one.results[0])), default=None)


def propose_patterns(lines: Sequence[str]) -> Iterator[PrintedResults]:
    """Proposes expressions that find results in a program's output."""
    forms = find_forms(lines)
    usable = sorted((form for form in forms if form.is_usable), key=lambda form: -form.rank)[:_MOST_FORMS]
    sample = "\n".join(lines[:_SAMPLE])
    for form in usable:
        yield from _try_first(_build_line_patterns(form, sample), form.lines, lines)
    for group in _list_groups(forms, usable):
        yield from _propose_names(group, lines)
    for header, rows in _find_tables(lines):
        yield from _try_first([_build_row_pattern(header, rows)], rows, lines)


def read_printed(pattern: str, last: str, lines: Iterable[str]) -> list[Mapping[str, MetricValue]]:
    """What the agent finds in lines."""
    parser = make_log_parser(re.compile(pattern), last)
    found = [result.metrics for line in lines for result in parser.take(line)]
    return [*found, *(result.metrics for result in parser.finish())]


def _try_first(patterns: Iterable[str], own: Sequence[str], lines: Sequence[str]) -> Iterator[PrintedResults]:
    """The first expression by which each of its own lines is a result of numbers alone."""
    for pattern in patterns:
        if len(pattern) > _LONGEST_PATTERN:
            continue
        found = read_printed(pattern, "", own)
        has_numbers = all(not isinstance(value, str) for result in found for value in result.values())
        if len(found) == len(own) and has_numbers:
            yield PrintedResults(pattern, "", read_printed(pattern, "", lines))
            return


# One line a result


def _build_line_patterns(form: LineForm, sample: str) -> Iterator[str]:
    """Expressions for the lines of a form among others, those first that read better."""
    groups = _name_groups(form.names)
    leads = [[fields[place].lead for fields in form.fields] for place in range(len(groups))]
    gaps = [
        [
            line[fields[place].end : fields[place + 1].start]
            for line, fields in zip(form.lines, form.fields, strict=True)
        ]
        for place in range(len(groups) - 1)
    ]
    for number in _NUMBERS:
        pattern = r"(?:.*\r)?" if any("\r" in line.rstrip("\r") for line in form.lines) else ""
        for place, group in enumerate(groups):
            values = (fields[place].value for fields in form.fields)
            is_count = is_time(group) and all(value.isdecimal() for value in values)
            gap = _describe_gaps(gaps[place - 1]) if place else ""
            lead = _describe_texts(leads[place], _describe(form.names[place]) + r"\W+")
            boundary = r"\b" if re.search(rf"\w{lead}", sample) and form.names[place] else ""  # loss, not val_loss
            pattern += f"{gap}{boundary}{lead}(?P<{group}>{_WHOLE if is_count else number})"
        yield pattern


def _name_groups(names: Sequence[str]) -> list[str]:
    """Names for groups: those of metrics, in letters, digits and underscores."""
    groups: list[str] = []
    for name in names:
        group = re.sub(r"\W+", "_", re.sub(r"'s\b", "", name)).strip("_").lower() or _COUNTED
        while group in groups or group in ("name", "value"):  # which mean something else
            group += "_"
        groups.append(group)
    return groups


def _describe_gaps(gaps: Sequence[str]) -> str:
    """An expression for what stands between two numbers: anything, where there is another number in it."""
    return r".*?" if any(map(str.isdigit, "".join(gaps))) else _describe_texts(gaps, r".*?")


def _describe_texts(texts: Sequence[str], otherwise: str) -> str:
    """An expression for what stands in a place in all lines: itself where it is the same, but for spaces."""
    first = texts[0]
    if all(text == first for text in texts):
        return _describe(first)
    if len({_SPACE.sub("", text) for text in texts}) == 1:
        return _SPACES.sub(r"\\s*", _escape(first)) if _SPACE.search(first) else otherwise
    return otherwise


def _describe(text: str) -> str:
    """An expression for a text; of spaces, a single one stays as it is."""
    return _SPACES.sub(lambda match: " " if match[0] == " " else r"\s+", _escape(text))


def _escape(text: str) -> str:
    return _HARMLESS.sub(r"\1", re.escape(text))


# Several lines a result


def _list_groups(forms: Sequence[LineForm], usable: Sequence[LineForm]) -> Iterator[Sequence[LineForm]]:
    """Forms whose lines may make a result together: lines of one number each, or such a time before other lines."""
    singles = [form for form in forms if len(form.names) == 1 and form.names[0]]
    if any(form.is_usable for form in singles) and len(singles) > 1:
        most = max(len(form.lines) for form in singles if form.is_usable)
        usual = [form for form in singles if 2 * len(form.lines) > most]
        yield [form for form in usual if form.is_usable or form.has_time]
    times = [form for form in singles if is_time(form.names[0])]
    for form in usable:
        if not form.has_time and len(form.names) > 1:
            yield from ([time, form] for time in times if 0 <= len(time.lines) - len(form.lines) <= 1)


def _propose_names(forms: Sequence[LineForm], lines: Sequence[str]) -> Iterator[PrintedResults]:
    """The expression that finds the names of these forms, if it finds all of them in most results."""
    names = dict.fromkeys(name.rpartition(" ")[2] for form in forms for name in form.names)
    if len(names) < 2 or not any(map(find_mode, names)):
        return
    between = dict.fromkeys(
        _describe_texts([field.lead[len(field.name) :]], r"\W+") for form in forms for field in form.fields[0]
    )
    choice = next(iter(between)) if len(between) == 1 else f"(?:{'|'.join(between)})"
    pattern = rf"\b(?P<name>{'|'.join(map(_escape, names))}){choice}(?P<value>{_NUMBERS[0]})"
    if len(pattern) > _LONGEST_PATTERN:
        return
    found = read_printed(pattern, "", lines)
    whole = [result for result in found if result.keys() == names.keys()]
    has_numbers = all(not isinstance(value, str) for result in whole for value in result.values())
    if not whole or 2 * len(whole) < len(found) or not has_numbers:
        return
    lasts = Counter(next(reversed(list(result))) for result in whole)
    last = next(iter(lasts)) if len(lasts) == 1 else ""
    yield PrintedResults(pattern, last, read_printed(pattern, last, lines))


# Tables


def _find_tables(lines: Sequence[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Headers of tables that are printed row by row, and their rows."""
    tables: dict[tuple[str, ...], list[str]] = {}
    header: tuple[str, ...] = ()
    since = 0
    for line in lines:
        if not _ROW.fullmatch(line):
            words = tuple(word for word in _COLUMNS.split(line.strip()) if word)
            if len(words) < 2:
                words = tuple(line.split())
            since += 1
            if len(words) > 1 and all(word[0].isalpha() for word in words):
                header, since = words, 0
        elif since < _MOST_BACK and len(line.split()) == len(header):
            tables.setdefault(header, []).append(line)
    for words, rows in tables.items():
        if any(map(find_mode, words)):
            yield list(words), rows


def _build_row_pattern(header: Sequence[str], rows: Sequence[str]) -> str:
    columns = []
    for place, (word, group) in enumerate(zip(header, _name_groups(header), strict=True)):
        is_count = is_time(group) and all(row.split()[place].isdecimal() for row in rows)
        columns.append(r"\S+" if is_beside(word) else f"(?P<{group}>{_WHOLE if is_count else _NUMBERS[0]})")
    return "".join((r"^\s*", r"\s+".join(columns), r"\s*$"))
