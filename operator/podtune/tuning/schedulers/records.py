"""Reads what a Trial's status.scheduler holds, and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Set
from typing import NoReturn

from podtune.tuning.schedulers.base import Record, RecordError


class Reading:
    """The record of one trial; whoever wrote the status may have written anything."""

    def __init__(self, trial: int, record: Record) -> None:
        """Begins to read.

        Args:
            trial: The trial, for messages.
            record: Its record.
        """
        self._trial = trial
        self._record = record

    def keys(self, section: str) -> Set[str]:
        """What a section holds; nothing where there is no such section."""
        return self._record.get(section, {}).keys()

    def number(self, section: str, key: str) -> float:
        """Reads a number, NaN and infinities included.

        Raises:
            RecordError: It is missing, or no number.
        """
        written = self.text(section, key)
        try:
            return float(written)
        except ValueError:
            self.refuse(section, key, "which is not a number; correct it or remove the entry")

    def integer(self, section: str, key: str, most: int | None = None) -> int:
        """Reads a whole number from 0.

        Args:
            section: The section.
            key: The key in it.
            most: The largest that makes sense with the experiment's settings.

        Raises:
            RecordError: It is missing, no such number, or too large.
        """
        written = self.text(section, key)
        if not written.isascii() or not written.isdigit():
            self.refuse(section, key, "which is not a whole number; correct it or remove the entry")
        if most is not None and int(written) > most:
            self.refuse(section, key, f"but {most} is the most that there can be; restore the scheduler's settings")
        return int(written)

    def refuse(self, section: str, key: str, why: str) -> NoReturn:
        """Refuses an entry.

        Args:
            section: The section.
            key: The key in it.
            why: What is wrong with its value, and the remedy.

        Raises:
            RecordError: Always.
        """
        written = self._record.get(section, {}).get(key)
        shown = "is missing" if written is None else f"is {written!r:.64}"
        raise RecordError(f"trial {self._trial}: status.scheduler.{section}[{key!r}] {shown}, {why}")

    def text(self, section: str, key: str) -> str:
        """Reads an entry.

        Raises:
            RecordError: It is missing.
        """
        written = self._record.get(section, {}).get(key)
        if written is None:
            self.refuse(section, key, f"and goes with the other entries; remove all of {section}")
        return written
