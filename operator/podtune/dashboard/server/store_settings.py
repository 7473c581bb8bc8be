"""Which stores an installed dashboard may read, as the chart writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podtune.cli.client.store_access import StoreOptions, read_bucket_address
from podtune.cli.errors import CliError
from podtune.dashboard.stores.access import BucketAddress, MountedStore

_KEYS = {"namespace", "directory", "store"}
_OF_STORES = {"bucket", "prefix", "endpoint", "region", "addressing", "gcs", "azure"}


def read_stores(written: str) -> tuple[MountedStore, ...]:
    """Reads a JSON list: of each store the `namespace`, the `directory` of its Secret, and the `store`.

    The last is what an Experiment's `checkpoints.store` has of a bucket.

    Raises:
        CliError: It is none.
    """
    if not written.strip():
        return ()
    try:
        items = json.loads(written)
    except ValueError as error:
        raise CliError(f"--stores is no JSON: {error}") from error
    if not isinstance(items, list):
        raise CliError("--stores is no JSON list")
    return tuple(_read_store(item, f"--stores, entry {number}") for number, item in enumerate(items, start=1))


def _read_store(item: Any, place: str) -> MountedStore:
    if not isinstance(item, dict) or set(item) != _KEYS:
        raise CliError(f"{place} is not an object with {', '.join(sorted(_KEYS))}")
    for key in ("namespace", "directory"):
        if not isinstance(item[key], str) or not item[key]:
            raise CliError(f"{place}: {key} is not a text")
    address = _read_address(item["store"], f"{place}: store")
    return MountedStore(item["namespace"], replace(address, credentials=item["directory"]))


def _read_address(store: Any, place: str) -> BucketAddress:
    if not isinstance(store, Mapping):
        raise CliError(f"{place} is not an object such as an Experiment's checkpoints.store")
    if unknown := sorted(set(store) - _OF_STORES):
        raise CliError(f"{place} has {', '.join(unknown)}; of checkpoints.store, use {', '.join(sorted(_OF_STORES))}")
    try:
        address = read_bucket_address(store, StoreOptions())
    except (CliError, LookupError, TypeError) as error:
        raise CliError(f"{place} names no bucket, gcs bucket or azure container with its account") from error
    if not isinstance(address, BucketAddress):
        raise CliError(f"{place} is none that a dashboard reads")
    return replace(address, prefix=address.prefix.strip("/"))
