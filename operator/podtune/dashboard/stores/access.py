"""The stores that a dashboard may read, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.store_access import (
    OpenedStore,
    StoreOptions,
    open_address,
    open_experiment_store,
    read_bucket_address,
)
from podtune.cli.errors import CliError
from podtune.dashboard.access.visit import VISIT
from podtune.storage.address import AzureAddress, GcsAddress, S3Address
from podtune.storage.patience import OF_PEOPLE

BucketAddress = S3Address | GcsAddress | AzureAddress
AUTHORITIES = "ca.crt"
"""Key of a store's Secret under which its certificate authorities may be."""


class StoreAccess(Protocol):
    """Opens the stores of Experiments. It may ask the API server, so it is used in a thread."""

    def find_obstacle(self, experiment: ExperimentView) -> str:
        """Why nobody can read the store of an Experiment here; empty where somebody may be able to."""

    def open(self, request: web.Request, experiment: ExperimentView) -> AbstractContextManager[OpenedStore]:
        """Opens the store of an Experiment, to which there is no obstacle, for whoever asks.

        Raises:
            CliError: It can't be read here, or not by this viewer.
            ApiError: The API server can't say what is needed to open it.
        """


@dataclass(frozen=True, slots=True)
class MountedStore:
    """A store that the installation lets the dashboard read.

    Attributes:
        namespace: Whose Experiments may be read there.
        address: Where it is, with the directory in which its Secret is mounted. An Experiment's prefix is this one, or
            begins with it and a slash.
    """

    namespace: str
    address: BucketAddress

    def admits(self, namespace: str, wanted: BucketAddress) -> bool:
        """Whether an Experiment's store is this one."""
        own = self.address
        is_below = not own.prefix or f"{wanted.prefix}/".startswith(f"{own.prefix}/")
        return namespace == self.namespace and is_below and _identify(wanted) == _identify(own)

    def locate(self, prefix: str) -> BucketAddress:
        """Its address for an Experiment with a prefix."""
        authorities = Path(self.address.credentials) / AUTHORITIES
        return replace(self.address, prefix=prefix, ca_file=str(authorities) if authorities.is_file() else "")


class MountedStores:
    """The stores of an installed dashboard, each with a Secret of its own; viewers must have come with a token.

    Where a store is, and so who is shown its Secret, is for the installation to say: an Experiment is written by its
    users, and could name a server of theirs.
    """

    def __init__(self, stores: Sequence[MountedStore]) -> None:
        """Takes the stores; of several that admit an Experiment, the first is read."""
        self._stores = stores

    def find_obstacle(self, experiment: ExperimentView) -> str:
        """See `StoreAccess`."""
        namespace = experiment.namespace
        is_known = any(each.namespace == namespace for each in self._stores)
        return _find_obstacle(experiment) or (
            "" if is_known else f"this dashboard has no store of namespace {namespace} (dashboard.stores)"
        )

    @contextmanager
    def open(self, request: web.Request, experiment: ExperimentView) -> Iterator[OpenedStore]:
        """See `StoreAccess`."""
        visit = request.get(VISIT)
        if visit is None or visit.session is None:
            raise CliError("stores are shown to who has logged in with a token; you have not")
        yield open_address(self._find(experiment), OF_PEOPLE)

    def _find(self, experiment: ExperimentView) -> BucketAddress:
        namespace, wanted = experiment.namespace, read_bucket_address(_get_store(experiment), StoreOptions())
        for each in self._stores:
            if isinstance(wanted, BucketAddress) and each.admits(namespace, wanted):
                return each.locate(wanted.prefix)
        below = f" with prefix {wanted.prefix!r}" if wanted.prefix else ""
        raise CliError(
            f"{wanted.where}{below} is none of the stores that this dashboard may read for namespace {namespace}; "
            "whoever has installed it can add it to dashboard.stores"
        )


class OwnStores:
    """Stores that are read with the credentials of whoever has started the dashboard; no Secret is read.

    Who writes an Experiment names its server, and any site can have a browser open a page of the dashboard. A request
    to S3 is signed and shows no key, but Google and Azure are shown a token: it goes to their own servers alone.
    """

    def __init__(self, connect: Callable[[], Api]) -> None:
        """Takes what opens the API server, which may have the certificate authorities of a store."""
        self._connect = connect

    def find_obstacle(self, experiment: ExperimentView) -> str:
        """See `StoreAccess`."""
        store = _get_store(experiment)
        is_shown_token = bool((store.get("gcs") or store.get("azure")) and store.get("endpoint"))
        return _find_obstacle(experiment) or (
            f"the store of {experiment.name} is on {store['endpoint']}, which your token would be shown to"
            if is_shown_token
            else ""
        )

    @contextmanager
    def open(self, request: web.Request, experiment: ExperimentView) -> Iterator[OpenedStore]:
        """See `StoreAccess`."""
        del request  # all requests have the same rights
        with open_experiment_store(
            self._connect(), experiment, StoreOptions(own_credentials=True, patience=OF_PEOPLE)
        ) as opened:
            yield opened


def _get_store(experiment: ExperimentView) -> Mapping[str, Any]:
    return (experiment.spec.get("checkpoints") or {}).get("store") or {}


def _find_obstacle(experiment: ExperimentView) -> str:
    """Why no dashboard can read a store."""
    store = _get_store(experiment)
    if not store:
        return f"{experiment.name} has no checkpoints.store, so nothing of it is stored"
    if store.get("volume"):
        return f"the store of {experiment.name} is a volume, which takes a pod to read"
    if store.get("plugin"):
        return f"the store of {experiment.name} is a plugin’s, whose package is not here"
    return ""


def _identify(address: BucketAddress) -> tuple[str, str, str]:
    """What makes two addresses those of one store."""
    account = address.account if isinstance(address, AzureAddress) else ""
    return address.uri, (address.endpoint or "").rstrip("/"), account
