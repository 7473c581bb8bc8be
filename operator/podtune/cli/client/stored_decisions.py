"""All decisions on trials, as agents have stored them: a Trial's status keeps the latest ones only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from podtune.cli.output import print_note
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import LedgerLine, parse_ledger
from podtune.storage.checkpoint.address import LEDGER
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore

MAX_BYTES = 16 << 20
"""So much of one file is read; 10,000 decisions take half of it."""
StoredDecision = dict[str, Any]


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
