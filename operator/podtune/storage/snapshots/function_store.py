"""The source of an experiment's function, beside the records of its snapshot.

It lies under the name of the ConfigMap that it travels in. That one never changes, so one object holds it for good.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from podtune.storage.errors import NotFound
from podtune.storage.object_store import ObjectStore, ReadableStore
from podtune.storage.snapshots.record_store import SNAPSHOT_FOLDER

_MAX_BYTES = 8 << 20
"""A ConfigMap holds 1 MiB; in JSON a character of it may become six."""


class DamagedFunction(ValueError):
    """What is stored is no function; the text names the key."""


def store_function(store: ObjectStore, experiment_prefix: str, config_map: str, files: Mapping[str, str]) -> None:
    """Stores a function's files, by path. It may be repeated.

    Raises:
        StoreError: The store can't do it now, or at all.
    """
    body = json.dumps({"files": dict(files)}, ensure_ascii=False).encode()
    store.put_bytes(_format_key(experiment_prefix, config_map), body)


def has_function(store: ReadableStore, experiment_prefix: str, config_map: str) -> bool:
    """Whether it is there.

    Raises:
        StoreError: The store can't tell now, or at all.
    """
    # Listed, not looked up: who may read below a prefix alone is refused the look-up of what is not there.
    return _format_key(experiment_prefix, config_map) in store.list(_format_folder(experiment_prefix))


def read_function(store: ReadableStore, experiment_prefix: str, config_map: str) -> Mapping[str, str] | None:
    """A function's files, by path; None where it is not stored.

    Raises:
        DamagedFunction: It is something else.
        StoreError: The store can't be read now, or at all.
    """
    if not has_function(store, experiment_prefix, config_map):
        return None
    key = _format_key(experiment_prefix, config_map)
    try:
        files = json.loads(store.get_bytes(key, _MAX_BYTES))["files"]
        if not all(isinstance(text, str) for text in files.values()):
            raise TypeError("a file is no text")
    except NotFound:
        return None  # deleted since the listing
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFunction(f"the function's source {key} is damaged: {error}") from error
    return dict(files)


def _format_folder(experiment_prefix: str) -> str:
    return f"{experiment_prefix}{SNAPSHOT_FOLDER}/functions/"


def _format_key(experiment_prefix: str, config_map: str) -> str:
    return f"{_format_folder(experiment_prefix)}{config_map}.json"
