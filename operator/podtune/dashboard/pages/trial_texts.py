"""Texts of one trial that are read on request: the end of its log, its pod's Events, and its manifest."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from podtune.api.names import API_VERSION
from podtune.api.pods.quantities import parse_size
from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.live.event_stream import STAYS
from podtune.dashboard.live.object_reader import LAST_LINES, Answer, ObjectReader
from podtune.dashboard.pages.context import OBJECT_READER, READING_THREADS, NotThere, find_rows, get_source, pick_row
from podtune.dashboard.pages.meanwhile import announce
from podtune.dashboard.progress.pod_events import trace_pod
from podtune.dashboard.query_values import read_whole_number
from podtune.dashboard.rendering import render_download, render_page
from podtune.dashboard.sources import ManifestSource
from podtune.dashboard.trial_rows import ExperimentRows, TrialRow
from podtune.kube.errors import ApiError, ApiRefusal
from podtune.kube.manifests import Manifest

LONGEST_ASKING = 20.0
"""Seconds that a page waits for the API server."""
_ASKED = "Asking the API server"
MOST_RANKS = 64
_UNTOLD_ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """Where a trial's log is.

    Attributes:
        is_readable: Whether the pod's own log can be asked for here.
        ranks: How many pods its attempts have.
        is_kept: Whether what is printed goes to the store.
        folder: Where in the store; empty where nothing is on record.
        command: What prints the log of the pod.
    """

    is_readable: bool
    ranks: int
    is_kept: bool
    folder: str
    command: str

    @property
    def stored_command(self) -> str:
        """What prints what is kept of all attempts."""
        return f"{self.command} --stored"


@dataclass(frozen=True, slots=True)
class _Pod:
    """The pod of a trial's current or last attempt, and what reads of it."""

    request: web.Request
    experiment: ExperimentRows
    row: TrialRow
    reader: ObjectReader
    rank: int

    @property
    def facts(self) -> dict[str, Any]:
        """What templates need to say which pod it is."""
        places = find_log_places(self.request, self.experiment, self.row)
        return {"experiment": self.experiment, "row": self.row, "places": places, "rank": self.rank}

    def read_log(self) -> Sequence[str]:
        return self.reader.read_log(self.request, self.experiment.view.namespace, self.row.view, self.rank)

    def read_events(self) -> Sequence[Manifest]:
        return self.reader.read_events(self.request, self.experiment.view.namespace, self.row.view, self.rank)


def find_log_places(request: web.Request, experiment: ExperimentRows, row: TrialRow) -> LogPlaces:
    """Where the log of a trial is, as far as it is kept."""
    spec, view = experiment.view.spec, row.view
    return LogPlaces(
        is_readable=request.app[OBJECT_READER] is not None and bool(view.pod),
        ranks=min(experiment.ranks, MOST_RANKS),
        is_kept=_is_kept((spec.get("logs") or {}).get("keep")),
        folder=view.status.folder,
        command=f"kubectl podtune logs {view.name} -n {experiment.view.namespace}",
    )


def has_manifest(request: web.Request) -> bool:
    """Whether a Trial can be shown as it is written."""
    return request.app[OBJECT_READER] is not None or isinstance(get_source(request), ManifestSource)


async def show_log(request: web.Request) -> web.Response:
    """The last lines of the pod of a trial's current or last attempt.

    Raises:
        NotThere: There is no such trial, or nothing to read logs with.
        Busy: Too many are waiting for the API server.
    """
    pod = _find_pod(request, "trial/log.html")
    lines, problem = await _ask(request, pod.read_log)
    return _render_pod(
        pod,
        "trial/log.html",
        text="\n".join(lines or ()),
        problem=problem,
        most=LAST_LINES,
        has_more=len(lines or ()) >= LAST_LINES,
    )


async def show_events(request: web.Request) -> web.Response:
    """The Events of the same pod, and what they say of how it has started.

    Raises:
        NotThere: There is no such trial, or nothing to read Events with.
        Busy: Too many are waiting for the API server.
    """
    pod = _find_pod(request, "trial/events.html")
    items, problem = await _ask(request, pod.read_events)
    return _render_pod(pod, "trial/events.html", course=trace_pod(items or ()), problem=problem)


async def show_manifest(request: web.Request) -> web.Response:
    """A Trial as it is written."""
    request[STAYS] = True
    experiment, row = _find_row(request)
    announce(request, "trial/manifest.html", _ASKED, LONGEST_ASKING, experiment=experiment, row=row)
    manifest, problem = await _find_manifest(request, experiment, row)
    return render_page(
        request,
        "trial/manifest.html",
        experiment=experiment,
        row=row,
        text=write_manifest(manifest) if manifest is not None else "",
        problem=problem,
    )


async def send_manifest(request: web.Request) -> web.Response:
    """The same as a file.

    Raises:
        NotThere: There is no such trial, or it can't be read.
        Busy: Too many are waiting for the API server.
    """
    experiment, row = _find_row(request)
    manifest, problem = await _find_manifest(request, experiment, row)
    if manifest is None:
        raise NotThere(problem)
    return render_download(write_manifest(manifest), "application/yaml", f"{row.name}.yaml")


def write_manifest(manifest: Mapping[str, Any]) -> str:
    """A Trial as YAML, without what says nothing of it. It names Secrets at most, and holds none."""
    metadata = {name: value for name, value in (manifest.get("metadata") or {}).items() if name != "managedFields"}
    annotations = {
        name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name != _UNTOLD_ANNOTATION
    }
    body = {
        "apiVersion": API_VERSION,
        "kind": "Trial",
        "metadata": metadata | ({"annotations": annotations} if annotations else {}),
        "spec": manifest.get("spec") or {},
        **({"status": manifest["status"]} if manifest.get("status") else {}),
    }
    return yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=120)


async def _find_manifest(
    request: web.Request, experiment: ExperimentRows, row: TrialRow
) -> tuple[Manifest | None, str]:
    """The Trial, or why there is none."""
    source, reader, view = get_source(request), request.app[OBJECT_READER], experiment.view
    if isinstance(source, ManifestSource):
        return source.find_manifest(view.namespace, view.name, row.name), f"{row.name} is not there."
    if reader is None:
        return None, f"{source.title} does not show manifests."
    return await _ask(request, lambda: reader.read_manifest(request, view.namespace, row.name))


async def _ask(request: web.Request, ask: Callable[[], Answer]) -> tuple[Answer | None, str]:
    """What the API server answers, or why it does not."""
    answer = asyncio.wrap_future(request.app[READING_THREADS].submit(ask))
    try:
        return await asyncio.wait_for(answer, LONGEST_ASKING), ""
    except TimeoutError:
        return None, f"The API server has not answered within {LONGEST_ASKING:g} seconds."
    except ApiRefusal as error:
        refused = error.status == http.client.FORBIDDEN
        return None, f"{explain_error(error)}{'; you need the right to get it' if refused else ''}"
    except (ApiError, CliError) as error:
        return None, explain_error(error)


def _find_pod(request: web.Request, template: str) -> _Pod:
    request[STAYS] = True
    experiment, row = _find_row(request)
    reader = request.app[OBJECT_READER]
    if reader is None:
        raise NotThere(f"{get_source(request).title} has no pods, and so neither logs nor Events of them.")
    pod = _Pod(request, experiment, row, reader, read_whole_number(request.query, "rank", 0, least=0))
    announce(request, template, _ASKED, LONGEST_ASKING, **pod.facts)
    return pod


def _render_pod(pod: _Pod, template: str, **facts: Any) -> web.Response:
    return render_page(pod.request, template, **pod.facts, **facts)


def _find_row(request: web.Request) -> tuple[ExperimentRows, TrialRow]:
    experiment = find_rows(request)
    return experiment, pick_row(experiment, request.match_info["trial"])


def _is_kept(written: object) -> bool:
    try:
        return isinstance(written, str | int) and parse_size(str(written)) > 0
    except ValueError:
        return False
