"""Writes records, which a Trial's status.scheduler holds, and reads them again, saying what is wrong with them.

A value of a record may have 256 characters, and a section 1,024. So the words of a long list share values: they
stand in their order, with a space between two, and the values are keyed by their positions, "0", "1", …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import NoReturn

from podtune.tuning.schedulers.base import Record, RecordError

MAX_VALUE = 256
"""Longest value of a record, in characters."""


def encode_words(words: Iterable[str]) -> dict[str, str]:
    """Encodes words, each without a space and at most `MAX_VALUE` long, into as few values as keep their order."""
    values: list[str] = []
    for word in words:
        if values and len(values[-1]) + 1 + len(word) <= MAX_VALUE:
            values[-1] += f" {word}"
        else:
            values.append(word)
    return {str(position): value for position, value in enumerate(values)}


def decode_words(values: Mapping[str, str]) -> list[str]:
    """The words that `encode_words` encoded.

    Raises:
        ValueError: A key is not a position.
    """
    return [word for position in sorted(values, key=int) for word in values[position].split(" ")]


def format_shortest(number: float) -> str:
    """Writes a number in as few characters as reading it back allows: 3 for 3.0."""
    return repr(number).removesuffix(".0")


class RecordReader:
    """The record of one trial; whoever wrote the status may have written anything."""

    def __init__(self, trial: int, record: Record) -> None:
        self._trial = trial
        self._record = record

    def list_keys(self, section: str) -> Set[str]:
        """What a section holds; nothing where there is no such section."""
        return self._record.get(section, {}).keys()

    def check_rungs(self, milestones: Iterable[int]) -> None:
        """Checks that what `rungs` holds is of rungs that the trial can have come to.

        Raises:
            RecordError: An entry is of another rung.
        """
        known = [str(milestone) for milestone in milestones]
        for strange in sorted(self.list_keys("rungs") - set(known)):
            why = f"but its rungs are {', '.join(known)}; restore the scheduler's settings, or remove the entry"
            self.refuse("rungs", strange, why)

    def read_number(self, section: str, key: str) -> float:
        """Reads a number, NaN and infinities included.

        Raises:
            RecordError: It is missing, or no number.
        """
        written = self.read_text(section, key)
        try:
            return float(written)
        except ValueError:
            self.refuse(section, key, "which is not a number; correct it or remove the entry")

    def read_integer(self, section: str, key: str, most: int | None = None) -> int:
        """Reads a whole number from 0.

        Raises:
            RecordError: It is missing, no such number, or too large.
        """
        written = self.read_text(section, key)
        if not written.isascii() or not written.isdigit():
            self.refuse(section, key, "which is not a whole number; correct it or remove the entry")
        if most is not None and int(written) > most:
            self.refuse(section, key, f"but at most {most} is possible; restore the scheduler's settings")
        return int(written)

    def refuse(self, section: str, key: str, why: str) -> NoReturn:
        """Refuses an entry.

        Raises:
            RecordError: Always.
        """
        written = self._record.get(section, {}).get(key)
        shown = "is missing" if written is None else f"is {written!r:.64}"
        raise RecordError(f"trial {self._trial}: status.scheduler.{section}[{key!r}] {shown}, {why}")

    def read_text(self, section: str, key: str) -> str:
        """Reads an entry.

        Raises:
            RecordError: It is missing.
        """
        written = self._record.get(section, {}).get(key)
        if written is None:
            self.refuse(section, key, f"and goes with the other entries; remove all of {section}")
        return written
