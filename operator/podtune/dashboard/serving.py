"""Serves the dashboard of a cluster or of an archive to the machine that it runs on."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web

from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError
from podtune.dashboard.app import AppSettings, make_app
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.dashboard.live.object_reader import KubeconfigReader
from podtune.dashboard.pages.context import EXPERIMENT_ROWS
from podtune.dashboard.pages.experiments import draw_overview
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.server.logs import hide_bad_request
from podtune.dashboard.sources import ArchiveSource, open_archive
from podtune.dashboard.stores.access import OwnStores

LOOPBACK = "127.0.0.1"
_THRESHOLDS = (50_000, 20, 50)
"""An update makes some 50,000 objects, of which hardly any stays."""
KEEP_ALIVE = 75.0
"""Seconds after which an idle connection is closed: a browser's next request follows soon, or opens another."""
LARGE = 4 << 20
"""Bytes of an archive that another process reads: reading leaves four times the memory of what was read behind."""


def serve_cluster(
    connect: Callable[[], Api],
    namespace: str | None,
    port: int,
    announce: Callable[[str], None],
    *,
    price: GpuPrice = NO_PRICE,
    title: str = "",
) -> None:
    """Serves what a cluster has, until the program is interrupted.

    Args:
        connect: Opens the API server.
        namespace: Of which the Experiments are shown; None for all.
        port: Where to listen on loopback; 0 for any free port.
        announce: Is told the address as soon as it answers.
        price: Of a GPU-hour, for experiments whose manifest has none.
        title: What is shown, in a few words; else the namespace.

    Raises:
        CliError: The Experiments may not be read, or there are none to be known, or the port is taken.
        ApiError: The API server can't be reached.
    """
    source = ClusterSource(connect, namespace, title=title)
    listener = _listen(port)
    try:
        source.start()
        reader, stores = KubeconfigReader(connect), OwnStores(connect)
        app = make_app(source, AppSettings(price=price, reader=reader, stores=stores))
        spare_collector()
        asyncio.run(_serve(app, listener, announce))
    finally:
        source.stop()
        listener.close()


def serve_archive(file: Path, port: int, announce: Callable[[str], None], *, price: GpuPrice = NO_PRICE) -> None:
    """Serves what an archive has, until the program is interrupted.

    Args:
        file: What `export` has written.
        port: Where to listen on loopback; 0 for any free port.
        announce: Is told the address as soon as it answers.
        price: Of a GPU-hour, for experiments whose manifest has none.

    Raises:
        CliError: The file is no archive, or the port is taken.
    """
    app = make_app(read_source(file), AppSettings(price=price))
    listener = _listen(port)
    rows = app[EXPERIMENT_ROWS]
    for view in rows.source.list_experiments():  # the first page is there at once then
        draw_overview(rows.get(view), price)
    spare_collector()
    asyncio.run(_serve(app, listener, announce))


def read_source(file: Path) -> ArchiveSource:
    """Reads an archive, a large one aside.

    Raises:
        CliError: It is none, or it is damaged.
    """
    if not file.is_file() or file.stat().st_size < LARGE:
        return open_archive(file)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(open_archive, file).result()


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise CliError(f"port {port}: {error.strerror or error}; choose another with --port, or 0 for any") from error
    return listener


def spare_collector() -> None:
    """Has the collector of cycles pass over what is there: a look at 10,000 trials takes a third of a second."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def make_runner(app: web.Application, **options: Any) -> web.AppRunner:
    """What serves an application here and in a cluster; options are those of `AppRunner`."""
    logging.getLogger("aiohttp.server").addFilter(hide_bad_request)
    return web.AppRunner(app, access_log=None, keepalive_timeout=KEEP_ALIVE, **options)


async def _serve(app: web.Application, listener: socket.socket, announce: Callable[[str], None]) -> None:
    runner = make_runner(app)
    await runner.setup()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    try:
        await web.SockSite(runner, listener).start()
        announce(f"http://{LOOPBACK}:{listener.getsockname()[1]}/")
        await stopped.wait()
    finally:
        await runner.cleanup()
