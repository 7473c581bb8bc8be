"""Which folders from before a restore the dashboard reads for an Experiment.

The annotation that lists them is the word of whoever may edit the Experiment, and the dashboard's credentials may reach
further than theirs. So a folder is read only if the Experiment's record in it, which is the operator's word, names the
same namespace.
"""

from __future__ import annotations

import json

from podtune.api.names import EXPERIMENT_KIND
from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.store_access import OpenedStore
from podtune.protocol.snapshot import MAX_RECORD
from podtune.storage.errors import NotFound
from podtune.storage.object_store import ReadableStore
from podtune.storage.segments.former import FormerFolder
from podtune.storage.snapshots.record_store import format_key, list_records_of


def list_readable_folders(opened: OpenedStore, experiment: ExperimentView) -> tuple[FormerFolder, ...]:
    """The folders that an Experiment of this namespace has stored things in before, the oldest first.

    Raises:
        CliError: The annotation is not what `podtune` has written.
        StoreError: The store can't be read.
    """
    listed = list_former_folders(experiment, opened.address)
    return tuple(one for one in listed if _read_namespace(opened.store, one.prefix) == experiment.namespace)


def _read_namespace(store: ReadableStore, prefix: str) -> str | None:
    """The namespace of the Experiment whose folder it is; None where no record tells."""
    for name in list_records_of(store, prefix, ""):
        try:
            body = json.loads(store.get_bytes(format_key(prefix, name), MAX_RECORD))
            if body["kind"] == EXPERIMENT_KIND:
                return str(body["metadata"]["namespace"])
        except (NotFound, ValueError, LookupError, TypeError):
            continue  # a newer one has taken its place, or it is damaged
    return None
