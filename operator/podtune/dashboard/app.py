"""The web application: its addresses, and what every answer has in common."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from podtune.dashboard.access.gate import Access, add_access
from podtune.dashboard.actions.pages import ViewerApi, add_actions
from podtune.dashboard.addresses import PREFIX, is_loopback
from podtune.dashboard.live import event_stream
from podtune.dashboard.live.object_reader import Busy, ObjectReader, ReadingThreads
from podtune.dashboard.live.paced_source import PacedSource
from podtune.dashboard.pages import (
    comparison,
    experiments,
    learning,
    replay,
    scheduler,
    stored,
    timeline,
    trial_texts,
    trials,
)
from podtune.dashboard.pages.context import (
    CLOCK,
    EXPERIMENT_ROWS,
    GPU_PRICE,
    HISTORIES,
    OBJECT_READER,
    READING_THREADS,
    STATIC,
    STORE_ACCESS,
    STORE_THREADS,
    Deleted,
    NotThere,
    RowCache,
)
from podtune.dashboard.pages.meanwhile import tell_meanwhile
from podtune.dashboard.pages.sharing import SHARED_ANSWERS, SharedAnswers
from podtune.dashboard.pricing import NO_PRICE, GpuPrice
from podtune.dashboard.query_values import QueryError
from podtune.dashboard.rendering import compress_static_file, find_static_files, find_static_version, render_page
from podtune.dashboard.server.logs import get_field_logger
from podtune.dashboard.sources import ExperimentSource, LiveSource
from podtune.dashboard.stores.access import StoreAccess
from podtune.dashboard.stores.history import HistoryShelf

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On every answer. Pages get nothing from elsewhere, and run no script that stands in them."""
LARGEST_FORM = 64 << 10
"""Bytes that a browser may send."""
BUSY = "Other pages are waiting for {} to answer, as many as may wait. Try again in a minute."
_VERSION = re.compile("^[0-9a-f]{12}/")
"""What addresses of scripts and styles may begin with."""
ONE_DAY = "public, max-age=86400, immutable"
_log = get_field_logger(__name__)


@dataclass(frozen=True, slots=True)
class AppSettings:
    """How an application is reached.

    Attributes:
        prefix: What the paths of requests begin with, without a slash at the end.
        allows_host: Says of a Host header whether it is answered.
        access: How viewers of a live source are let in; None where the program is the viewer's own.
        connect_as: Opens the API server with a viewer's token; None where there are no actions.
        price: Of a GPU-hour, for experiments whose manifest has none.
        reader: Reads logs and manifests with the rights of whoever asks; without it, a cluster's are not shown.
        stores: Opens the stores of experiments; without it, nothing of them is shown.
        clock: Tells pages the present time in seconds since 1970.
    """

    prefix: str = ""
    allows_host: Callable[[str], bool] = is_loopback
    access: Access | None = None
    connect_as: ViewerApi | None = None
    price: GpuPrice = NO_PRICE
    reader: ObjectReader | None = None
    stores: StoreAccess | None = None
    clock: Callable[[], float] = time.time


LOCAL = AppSettings()
"""Shown to the machine that it runs on."""


def make_app(source: ExperimentSource, settings: AppSettings = LOCAL) -> web.Application:
    """Makes the application that shows what a source has."""
    app = web.Application(
        client_max_size=LARGEST_FORM,
        middlewares=[_refuse_foreign_hosts(settings.allows_host), tell_meanwhile, _show_errors],
    )
    app.on_response_prepare.append(_add_headers)
    app[PREFIX] = settings.prefix
    app[GPU_PRICE] = settings.price
    app[CLOCK] = settings.clock
    app[OBJECT_READER] = settings.reader
    app[READING_THREADS] = ReadingThreads()
    app[STORE_ACCESS] = settings.stores
    app[STORE_THREADS] = ReadingThreads("a store", stored.MOST_STORE_READERS)
    app[HISTORIES] = HistoryShelf()
    app.on_cleanup.append(_end_reading)
    if isinstance(source, LiveSource):
        source = PacedSource(source, event_stream.PACE)
        if settings.access is not None:
            add_access(app, source, settings.access)
            if settings.connect_as is not None:
                add_actions(app, settings.connect_as)
        event_stream.add_streams(app, source)
    app[EXPERIMENT_ROWS] = RowCache(source)
    app[SHARED_ANSWERS] = SharedAnswers()
    _add_pages(app)
    return app


def _add_pages(app: web.Application) -> None:
    one = "/experiments/{namespace}/{experiment}"
    app.add_routes(
        [
            web.get("/", experiments.show_experiments),
            web.get(f"{one}/", experiments.show_experiment, name="experiment"),
            web.get(f"{one}/parameters", experiments.show_parameters),
            web.get(f"{one}/columns.json", experiments.send_columns),
            web.get(f"{one}/charts/{{chart}}.svg", experiments.send_chart),
            web.get(f"{one}/charts/{{chart}}.json", learning.send_points),
            web.get(f"{one}/timeline", timeline.show_timeline),
            web.get(f"{one}/trials", trials.show_trials),
            web.get(f"{one}/trials.csv", trials.send_csv),
            web.get(f"{one}/trials.json", trials.send_json),
            web.get(f"{one}/trials/{{trial}}", trials.show_trial, name="trial"),
            web.get(f"{one}/trials/{{trial}}/log", trial_texts.show_log),
            web.get(f"{one}/trials/{{trial}}/pod", trial_texts.show_events),
            web.get(f"{one}/trials/{{trial}}/manifest", trial_texts.show_manifest),
            web.get(f"{one}/trials/{{trial}}/manifest.yaml", trial_texts.send_manifest),
            web.get(f"{one}/trials/{{trial}}/results", stored.show_results),
            web.get(f"{one}/trials/{{trial}}/results.svg", stored.send_results_chart),
            web.get(f"{one}/trials/{{trial}}/results.json", stored.send_results_points),
            web.get(f"{one}/trials/{{trial}}/results.csv", stored.send_results_csv),
            web.get(f"{one}/trials/{{trial}}/checkpoints", stored.show_checkpoints),
            web.get(f"{one}/trials/{{trial}}/stored-logs", stored.show_logs),
            web.get(f"{one}/scheduler", scheduler.show_scheduler),
            web.get(f"{one}/scheduler/family.json", scheduler.send_exploits),
            web.get(f"{one}/scheduler/{{chart}}.svg", scheduler.send_scheduler_chart),
            web.get(f"{one}/compare", comparison.show_comparison),
            web.get(f"{one}/compare.csv", comparison.send_comparison_csv),
            web.get(f"{one}/compare.json", comparison.send_comparison_json),
            web.get(f"{one}/compare.svg", comparison.send_comparison_chart),
            web.get(f"{one}/compare/points.json", comparison.send_comparison_points),
            web.get(f"{one}/replay", replay.show_replay),
            web.get(f"{one}/replay/moment", replay.send_moment),
            web.get(f"{one}/replay/tape.json", replay.send_tape),
            web.get(f"{one}/replay/picture.svg", replay.send_picture),
            web.get("/static/{file:.+}", _send_static, name=STATIC),
        ]
    )


async def _end_reading(app: web.Application) -> None:
    app[READING_THREADS].close()
    app[STORE_THREADS].close()


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault(hdrs.CACHE_CONTROL, "no-store")


def _refuse_foreign_hosts(allows: Callable[[str], bool]) -> Middleware:
    """Any site can have a name that leads to 127.0.0.1, and would read the pages in its visitors' browsers."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if allows(request.host):
            return await handler(request)
        return web.Response(status=403, text="open the dashboard as localhost: other names are refused\n")

    return check


@web.middleware
async def _show_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Deleted as error:
        gone = web.HTTPGone.status_code
        return render_page(request, "deleted.html", status=gone, name=error.name, moment=error.moment)
    except NotThere as error:
        return _render_error(request, 404, "Not there", str(error))
    except QueryError as error:
        return _render_error(request, 400, "Not understood", f"In this address, {error}.")
    except Busy as error:
        return _render_error(request, 503, "Busy", BUSY.format(error.other))
    except web.HTTPNotFound:
        request[event_stream.STAYS] = True
        return _render_error(request, 404, "Not there", "This address leads to no page of the dashboard.")
    except web.HTTPException as error:
        if error.status_code < 500 and error.text:
            return web.Response(status=error.status_code, text=error.text, headers=_list_allowed(error))
        raise
    except Exception:  # noqa: BLE001 - one broken object must not take the other pages away
        _log.exception("page not shown", path=str(request.rel_url))
        return _render_error(
            request, 500, "This page failed", "The program's output says why. Other pages may still work."
        )


def _list_allowed(error: web.HTTPException) -> dict[str, str]:
    allowed = error.headers.get(hdrs.ALLOW)
    return {hdrs.ALLOW: allowed} if allowed else {}


def _render_error(request: web.Request, status: int, title: str, message: str) -> web.Response:
    return render_page(request, "error.html", status=status, title=title, message=message)


async def _send_static(request: web.Request) -> web.StreamResponse:
    """Scripts and styles; browsers keep those that are asked for with their version.

    It is a folder of the address, so that what scripts import has it, too.
    """
    asked = request.match_info["file"]
    file = find_static_files().get(_VERSION.sub("", asked))
    if file is None:
        raise web.HTTPNotFound
    is_current = asked.startswith(f"{find_static_version()}/")
    is_compressed = "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower()
    body = compress_static_file(file) if is_compressed else file.read_bytes()
    kind = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}[file.suffix]
    response = web.Response(body=body, content_type=kind, charset="utf-8")
    response.headers[hdrs.CACHE_CONTROL] = ONE_DAY if is_current else "no-cache"
    response.headers[hdrs.VARY] = hdrs.ACCEPT_ENCODING
    if is_compressed:
        response.headers[hdrs.CONTENT_ENCODING] = "gzip"
    return response
