"""The latest decisions on a trial, in its status.

A status must stay small, so the agents store all decisions in the bucket, beside the attempts' results. Decisions from
a time without an agent are stored by the next attempt's agent. If there is none, `not_exported` lists what is left for
somebody else to store.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from podtune.api.conditions import clip
from podtune.api.names import DecisionKind
from podtune.api.resources.trial import (
    MAX_LEDGER_MESSAGE,
    MAX_NUMBER,
    MAX_NUMBER_NAME,
    MAX_NUMBERS,
    LedgerEntry,
    TrialSpec,
    TrialStatus,
)
from podtune.protocol import messages
from podtune.runner.timestamps import format_rfc3339
from podtune.runner.trial.results import show

MAX_ENTRIES = 12
MAX_SIZE = 1536
"""About so many bytes are kept, and the latest entry in any case."""
MAX_TRIAL = 3072
"""Bytes of a Trial, with spec and status, above which decisions that are in the bucket are not kept here as well.

The learning curve comes on top, with at most `MAX_CURVE`, and so do changes of state: they take no decision's place.
"""
_FRAME = 96
"""Bytes of an entry besides its texts."""

DecisionInputs = Mapping[str, float | int | str]


def enter(
    status: TrialStatus,
    action: DecisionKind,
    message: str,
    inputs: DecisionInputs,
    *,
    now: float,
    attempt: int,
    step: int,
) -> TrialStatus:
    """The status with one more decision; where there is no room, older ones go."""
    numbers = list(inputs.items())[:MAX_NUMBERS]
    entry = LedgerEntry(
        number=status.ledger[-1].number + 1 if status.ledger else 1,
        time=format_rfc3339(now),
        attempt=attempt,
        step=step,
        action=action,
        message=clip(message, MAX_LEDGER_MESSAGE),
        inputs={name[:MAX_NUMBER_NAME]: show(value)[:MAX_NUMBER] for name, value in numbers},
    )
    return status.model_copy(update={"ledger": _list_kept([*status.ledger, entry], status.ledger_exported)})


def find_latest_start(status: TrialStatus) -> int:
    """Number of the last entry that says why the trial starts; 0 where there is none."""
    return next((entry.number for entry in reversed(status.ledger) if entry.action == DecisionKind.START), 0)


def tells_of_start(status: TrialStatus) -> bool:
    """Whether the ledger already says why the next attempt starts, followed by nothing but new parameters."""
    latest = next((entry for entry in reversed(status.ledger) if entry.action != DecisionKind.CONFIGURE), None)
    return latest is not None and latest.action in (DecisionKind.START, DecisionKind.PROMOTE, DecisionKind.EXPLOIT)


def list_entries_after(status: TrialStatus, known: int) -> tuple[messages.LedgerLine, ...]:
    """The entries after the one with number `known`, for the agent that puts them into the bucket."""
    return tuple(
        messages.LedgerLine(
            number=entry.number,
            time=entry.time,
            attempt=entry.attempt,
            step=entry.step,
            action=entry.action,
            message=entry.message,
            inputs=entry.inputs,
        )
        for entry in status.ledger
        if entry.number > known
    )


def list_unexported(status: TrialStatus) -> tuple[messages.LedgerLine, ...]:
    """The entries that no agent has put into the bucket as far as is known, oldest first."""
    return list_entries_after(status, status.ledger_exported)


def mark_exported(status: TrialStatus, number: int) -> TrialStatus:
    """The status once an agent has put the entries up to a number into the bucket."""
    number = min(number, status.ledger[-1].number if status.ledger else 0)
    if number <= status.ledger_exported:
        return status
    return status.model_copy(update={"ledger_exported": number})


def fit(spec: TrialSpec, status: TrialStatus) -> TrialStatus:
    """The status without the oldest of the exported decisions, as far as the Trial would be too large with them.

    The newest of each kind stays: so a trial says of itself that it was promoted, or what it has cloned.
    """
    newest = {entry.action: entry.number for entry in status.ledger}.values()
    spare = [entry for entry in status.ledger if entry.number <= status.ledger_exported and entry.number not in newest]
    excess = _measure_part(spec) + _measure_part(status) - MAX_TRIAL if spare else 0
    given_up: set[int] = set()
    for entry in spare:
        if excess <= 0:
            break
        excess -= _measure_part(entry) + 1
        given_up.add(entry.number)
    if not given_up:
        return status
    return status.model_copy(update={"ledger": [e for e in status.ledger if e.number not in given_up]})


def _measure_part(part: BaseModel) -> int:
    """Bytes of it in an object of the API server, without learning curve and changes of state."""
    aside = {"curve", "transitions"}
    return len(part.model_dump_json(by_alias=True, exclude_defaults=True, exclude=aside, warnings=False).encode())


def _list_kept(entries: list[LedgerEntry], exported: int) -> list[LedgerEntry]:
    """The entries that fit: first those not in the bucket, then the newest of each kind, then the newest."""
    newest = {entry.action: entry.number for entry in entries}.values()
    ranked = sorted(entries, key=lambda e: (e.number > exported, e.number in newest, e.number), reverse=True)
    room, kept = MAX_SIZE, 0
    for entry in ranked[:MAX_ENTRIES]:
        room -= _measure_entry(entry)
        if room < 0 and kept:
            break
        kept += 1
    return sorted(ranked[:kept], key=lambda entry: entry.number)


def _measure_entry(entry: LedgerEntry) -> int:
    return _FRAME + len(entry.message) + sum(len(name) + len(number) + 6 for name, number in entry.inputs.items())
