"""All decisions on trials, as agents have stored them: a Trial's status keeps the latest ones only."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from podtune.cli.output import print_note
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import LedgerLine, parse_ledger
from podtune.storage.checkpoint.address import LEDGER
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.former import FormerFolder

MAX_BYTES = 16 << 20
"""So much of one file is read; 10,000 decisions take half of it."""
StoredDecision = dict[str, Any]
_TRIAL_NAMES = ("trial", "donor")
"""Inputs of a decision that name trials."""


def read_stored_decisions(
    store: ReadableStore, experiment_prefix: str, trials: Collection[str]
) -> dict[str, list[StoredDecision]]:
    """Reads the decisions on trials, each once and the oldest first; a file that can't be read is named in a note.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        trials: The trials whose decisions are wanted.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    found: dict[str, dict[tuple[int, str], LedgerLine]] = {}
    for key in store.list(experiment_prefix):
        trial = _find_trial(key.removeprefix(experiment_prefix))
        if trial in trials:
            known = found.setdefault(trial, {})
            known |= {(line.number, line.time): line for line in _read_ledger(store, key)}
    return {
        trial: [_write_decision(line) for _, line in sorted(lines.items())] for trial, lines in sorted(found.items())
    }


def read_all_decisions(
    store: ReadableStore, experiment_prefix: str, former: Sequence[FormerFolder], trials: Collection[str]
) -> dict[str, list[StoredDecision]]:
    """Reads the decisions on trials, those from before the experiment was restored, too, each once.

    A later life's ledger begins with what it knew. From its first own decision on a trial, it replaces the earlier
    life's. Messages keep the names that trials had then.

    Args:
        store: The bucket.
        experiment_prefix: What all keys of the experiment start with; it ends with a slash.
        former: Where it has stored things before, the oldest first.
        trials: The trials whose decisions are wanted, by their present names.

    Raises:
        StoreError: The store can't be read now, or at all.
    """
    known: dict[str, list[StoredDecision]] = {}
    for folder in former:
        found = read_stored_decisions(store, folder.prefix, {folder.find_former_name(trial) for trial in trials})
        for trial, decisions in found.items():
            name = folder.find_present_name(trial)
            known[name] = _follow(known.get(name, []), [_rename_trials(each, folder) for each in decisions])
    for trial, decisions in read_stored_decisions(store, experiment_prefix, trials).items():
        known[trial] = _follow(known.get(trial, []), decisions)
    return dict(sorted(known.items()))


def _follow(earlier: Sequence[StoredDecision], later: Sequence[StoredDecision]) -> list[StoredDecision]:
    """The decisions of two lives on one trial."""
    known = {(each["number"], each["time"]): each for each in earlier}
    new = {(each["number"], each["time"]): each for each in later}
    first_own = min((number for number, _ in new.keys() - known.keys()), default=math.inf)
    kept = {place: each for place, each in known.items() if place[0] < first_own}
    return [each for _, each in sorted((new | kept).items(), key=lambda item: item[0])]


def _rename_trials(decision: StoredDecision, folder: FormerFolder) -> StoredDecision:
    """A decision whose inputs name trials as they are called now."""
    inputs = decision["inputs"]
    names = {key: folder.find_present_name(inputs[key]) for key in _TRIAL_NAMES if isinstance(inputs.get(key), str)}
    return {**decision, "inputs": {**inputs, **names}}


def _find_trial(key: str) -> str:
    """Whose ledger a key below the experiment's prefix is: beside an attempt's results, or beside the attempts."""
    trial, *folders, name = key.split("/")
    return trial if name == LEDGER and len(folders) <= 1 else ""


def _read_ledger(store: ReadableStore, key: str) -> tuple[LedgerLine, ...]:
    try:
        return parse_ledger(store.get_bytes(key, MAX_BYTES))
    except NotFound:
        return ()  # it was deleted since the listing
    except ProtocolError as error:
        print_note(f"{key}: its decisions can't be read and are left out: {error}")
        return ()


def _write_decision(line: LedgerLine) -> StoredDecision:
    """A decision as a Trial's status has it."""
    return {**asdict(line), "inputs": dict(line.inputs)}
