"""What HyperBand records of a trial, as text and back."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from podtune.tuning.schedulers.base import Record
from podtune.tuning.schedulers.halving.halving_bracket import BracketEntry, Cutoff, Round
from podtune.tuning.schedulers.records import RecordReader

MAX_BANDS = 10**6
_CUTOFF = re.compile(
    r"(?P<value>-?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf|nan)) by trial (?P<trial>[0-9]{1,9}) of (?P<ranked>[0-9]{1,9})"
)


def write_entry(entry: BracketEntry, band: int, rounds: Sequence[Round], sign: float) -> Record:
    """The record of a trial, such that reading it gives the same floats.

    Args:
        entry: What its bracket knows of it.
        band: Which round of brackets it is in.
        rounds: The rounds of its bracket.
        sign: What rewards are multiplied by to be the metric's values.
    """
    bracket = {"band": str(band), "s": str(len(rounds) - 1), "round": str(entry.round)}
    time = entry.time if entry.ended else entry.arrived
    if time > 0:
        bracket["time"] = str(int(time)) if time.is_integer() else repr(time)
    if entry.ended:
        bracket["ended"] = "true"
    record = {"bracket": bracket}
    if entry.rewards:
        record["rungs"] = {
            str(rounds[number].milestone): repr(sign * reward) for number, reward in sorted(entry.rewards.items())
        }
    if entry.cutoffs:
        record["lines"] = {
            str(round_.milestone): f"{sign * cutoff.reward!r} by trial {cutoff.trial} of {cutoff.ranked}"
            for round_, cutoff in zip(rounds, entry.cutoffs, strict=False)
        }
    return record


def read_bracket(trial: int, record: Record, most_rungs: int) -> tuple[int, int]:
    """The band of a trial's bracket, and how many halvings that has.

    Raises:
        RecordError: There can be no such bracket.
    """
    reader = RecordReader(trial, record)
    return reader.read_integer("bracket", "band", most=MAX_BANDS), reader.read_integer("bracket", "s", most=most_rungs)


def read_entry(trial: int, record: Record, rounds: Sequence[Round], sign: float) -> BracketEntry:
    """What a bracket knows of a trial.

    Args:
        trial: The trial.
        record: Its record.
        rounds: The rounds of its bracket.
        sign: What the metric's values are multiplied by to be rewards.

    Raises:
        RecordError: A milestone isn't one of the bracket's, something is missing, or no number.
    """
    reader = RecordReader(trial, record)
    entry = BracketEntry(trial, rewards=_read_rewards(reader, rounds, sign))
    entry.round = reader.read_integer("bracket", "round", most=len(rounds))
    if entry.rewards or "time" in reader.list_keys("bracket"):
        time = reader.read_number("bracket", "time")
        entry.arrived = time if entry.rewards else entry.arrived
        entry.time = time if math.isfinite(time) else entry.time
    entry.ended = "ended" in reader.list_keys("bracket")
    drawn = rounds[: min(entry.round, len(rounds) - 1)]
    entry.cutoffs = tuple(_read_cutoff(reader, str(round_.milestone), sign) for round_ in drawn)
    return entry


def _read_rewards(reader: RecordReader, rounds: Sequence[Round], sign: float) -> dict[int, float]:
    reader.check_rungs(round_.milestone for round_ in rounds)
    written = reader.list_keys("rungs")
    numbers = {str(round_.milestone): number for number, round_ in enumerate(rounds)}
    return {
        number: sign * reader.read_number("rungs", milestone)
        for milestone, number in numbers.items()
        if milestone in written
    }


def _read_cutoff(reader: RecordReader, milestone: str, sign: float) -> Cutoff:
    match = _CUTOFF.fullmatch(reader.read_text("lines", milestone))
    if match is None:
        reader.refuse("lines", milestone, "which is not like '0.7 by trial 3 of 9'; correct it or remove the record")
    try:
        value = float(match["value"])
    except ValueError:
        reader.refuse("lines", milestone, "which does not begin with a number; correct it or remove the record")
    return Cutoff(sign * value, int(match["trial"]), int(match["ranked"]))
