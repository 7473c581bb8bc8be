"""Serves the pages of a source in a thread, such as those of several archives beside one another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from aiohttp import web

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.dashboard.app import LOCAL, AppSettings, make_app
from podtune.dashboard.sources import ArchiveSource, ExperimentSource, ManifestSource
from podtune.kube.manifests import Manifest

LOOPBACK = "127.0.0.1"
DEADLINE = 60.0
"""Seconds for whatever a busy machine may be slow at."""


class Gallery(ManifestSource):
    """Several archives beside one another."""

    def __init__(self, title: str, archives: Sequence[ArchiveSource]) -> None:
        """Takes what they are called together, and the archives."""
        self._title = title
        self._archives: Mapping[tuple[str, str], ArchiveSource] = {
            (view.namespace, view.name): archive for archive in archives for view in archive.list_experiments()
        }

    @property
    def title(self) -> str:
        """What they are called."""
        return self._title

    def list_experiments(self) -> Sequence[ExperimentView]:
        """One of each."""
        return [view for key in sorted(self._archives) for view in self._archives[key].list_experiments()]

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """The one of this name."""
        archive = self._archives.get((namespace, name))
        return archive.find_experiment(namespace, name) if archive else None

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """Its Trials."""
        archive = self._archives.get((namespace, experiment))
        return archive.list_trials(namespace, experiment) if archive else ()

    def find_manifest(self, namespace: str, experiment: str, trial: str) -> Manifest | None:
        """A Trial as it was written."""
        archive = self._archives.get((namespace, experiment))
        return archive.find_manifest(namespace, experiment, trial) if archive else None


@contextmanager
def serve_source(source: ExperimentSource, port: int = 0, settings: AppSettings = LOCAL) -> Iterator[str]:
    """Serves it on loopback while the context lasts, on any free port if it is 0; returns the first page's address."""
    address: Future[str] = Future()
    stopped: Future[None] = Future()
    app = make_app(source, settings)
    thread = threading.Thread(target=lambda: asyncio.run(_serve(app, port, address, stopped)), name="dashboard")
    thread.start()
    try:
        yield address.result(DEADLINE)
    finally:
        stopped.set_result(None)
        thread.join(DEADLINE)


async def _serve(app: web.Application, port: int, address: Future[str], stopped: Future[None]) -> None:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        site = web.TCPSite(runner, LOOPBACK, port, reuse_address=True)
        await site.start()
        address.set_result(f"http://{LOOPBACK}:{runner.addresses[0][1]}/")
        await asyncio.wrap_future(stopped)
    except BaseException as error:
        if not address.done():
            address.set_exception(error)
        raise
    finally:
        await runner.cleanup()
