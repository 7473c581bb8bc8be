"""The orphan ledger: decisions on a trial that were taken when there was no longer an agent to store them.

They lie beside the attempts' own ledgers, as one file a trial. What it holds already stays: the Trial's status, which
the later ones come from, remembers only the latest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from podtune.storage.errors import NotFound
from podtune.storage.object_store import ObjectStore

_MAX_BYTES = 16 << 20


def store_orphan_decisions(store: ObjectStore, key: str, entries: Sequence[str]) -> int:
    """Adds entries, JSON with a `number` each, oldest first, to a trial's file; returns how many were new.

    It may be repeated: an entry that is there is not added again.

    Raises:
        StoreError: The store can't be worked with now, or at all.
    """
    if not entries:
        return 0
    try:
        before = store.get_bytes(key, _MAX_BYTES).decode(errors="replace").splitlines()
    except NotFound:
        before = []
    known = {_read_number(line) for line in before}
    new = [entry for entry in entries if _read_number(entry) not in known]
    if new:
        store.put_bytes(key, "".join(f"{line}\n" for line in [*before, *new]).encode())
    return len(new)


def _read_number(line: str) -> object:
    """The number of an entry; a line that is none is like no other."""
    try:
        return json.loads(line)["number"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return line
