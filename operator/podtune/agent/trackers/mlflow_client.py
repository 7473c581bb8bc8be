"""A tracking server of MLflow, as far as the agent needs one: experiments, runs, and what is logged to them.

The REST API of https://mlflow.org/docs/latest/rest-api.html, by the standard library alone. What a server would refuse
of a name or a value is mended before it is sent: names hold letters, digits, spaces and `_-./`, and 250 of them.
"""

from __future__ import annotations

import http.client
import json
import math
import posixpath
import re
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from podtune.protocol.tracking import MLFLOW_PASSWORD, MLFLOW_TOKEN, MLFLOW_USERNAME

TRACKER_TIMEOUT = 5.0
"""Seconds until a request without an answer is given up."""
MAX_TRACKER_ANSWER = 16 << 20
MAX_METRICS_A_BATCH = 1000
MAX_PARAMS_A_BATCH = 100
_MAX_TAGS = 100
MAX_RUNS_A_PAGE = 1000
MAX_METRIC_NAME = 250
MAX_PARAM_VALUE = 500
"""Characters that servers of all releases take; later ones take 6,000."""
MAX_TAG_VALUE = 5000
_NOT_IN_NAMES = re.compile(r"[^/\w.\- ]")
_LATER = frozenset({408, 425, 429})
_ABSENT = frozenset({"RESOURCE_DOES_NOT_EXIST"})
_PRESENT = frozenset({"RESOURCE_ALREADY_EXISTS"})


class TrackerError(Exception):
    """A tracker did not do what it was asked for; the text names it, what it said, and the remedy.

    Attributes:
        is_refusal: Whether it will never take this request, whoever waits.
        code: What the server calls its reason; empty where it did not say.
    """

    def __init__(self, message: str, *, is_refusal: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.is_refusal = is_refusal
        self.code = code


@dataclass(frozen=True, slots=True)
class LoggedMetric:
    """One value of a metric.

    Attributes:
        time_ms: When it was reported, in milliseconds since the epoch.
    """

    key: str
    value: float
    time_ms: int
    step: int


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that the server has.

    Attributes:
        end_ms: When it has ended, in milliseconds since the epoch; None where it has not.
    """

    run_id: str
    experiment_id: str
    status: str
    end_ms: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)


class MlflowClient:
    """Talks to one server, over a connection that is kept. Not thread-safe."""

    def __init__(
        self,
        uri: str,
        read_credentials: Callable[[], Mapping[str, str]] = dict,
        *,
        ca_file: str = "",
        timeout: float = TRACKER_TIMEOUT,
    ) -> None:
        """Opens no connection yet.

        Args:
            uri: The server's address, as MLFLOW_TRACKING_URI has it.
            read_credentials: Gives the values of a Secret by the names of MLflow's variables; read for each request,
                since they may be renewed.
            ca_file: Certificates of the authorities that the server's is signed by; empty for the system's.
            timeout: Seconds until a request without an answer is given up.
        """
        self.uri = uri
        self._read_credentials = read_credentials
        self._ca_file = ca_file
        self._timeout = timeout
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Experiments and runs

    def find_or_create_experiment(self, name: str) -> str:
        """The id of the experiment of this name, made if there is none.

        Raises:
            TrackerError: The server does not answer, or refuses; a deleted experiment is one that it refuses.
        """
        for _ in range(2):
            if found := self._find_experiment(name):
                return found
            try:
                answer = self.request("POST", "experiments/create", {"name": name})
                with self._understand():
                    return str(answer["experiment_id"])
            except TrackerError as error:
                if error.code not in _PRESENT:
                    raise  # else another agent was faster
        raise TrackerError(f"{self.uri} neither finds nor makes the experiment {name!r}; give it another name")

    def _find_experiment(self, name: str) -> str:
        try:
            answer = self.request("GET", "experiments/get-by-name", {"experiment_name": name})
        except TrackerError as error:
            if error.code in _ABSENT:
                return ""
            raise
        with self._understand():
            experiment = answer["experiment"]
            experiment_id, stage = str(experiment["experiment_id"]), experiment.get("lifecycle_stage")
        if stage == "deleted":
            message = f"the experiment {name!r} at {self.uri} was deleted; restore it, or name another one"
            raise TrackerError(message)
        return experiment_id

    def search_runs(self, experiment_id: str, tags: Mapping[str, str], *, most: int = 1) -> Sequence[FoundRun]:
        """The runs of an experiment that have all of these tags, the oldest first; values hold no quotes.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        found: list[FoundRun] = []
        content = {
            "experiment_ids": [experiment_id],
            "filter": " AND ".join(f"tags.`{name}` = '{value}'" for name, value in tags.items()),
            "max_results": min(most, MAX_RUNS_A_PAGE),
            "order_by": ["attributes.start_time ASC"],
        }
        while len(found) < most:
            answer = self.request("POST", "runs/search", content)
            with self._understand():
                found += map(_read_run, answer.get("runs") or ())
            if not (token := answer.get("next_page_token")):
                break
            content["page_token"] = token
        return found[:most]

    def create_run(self, experiment_id: str, name: str, start_ms: int, tags: Mapping[str, str]) -> FoundRun:
        """Makes a run.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        # Servers before release 1.30 know a run's name as a tag alone.
        content = {
            "experiment_id": experiment_id,
            "run_name": name,
            "start_time": start_ms,
            "tags": _encode_pairs({"mlflow.runName": name, **tags}, MAX_TAG_VALUE),
        }
        answer = self.request("POST", "runs/create", content)
        with self._understand():
            return _read_run(answer["run"])

    def update_run(self, run_id: str, status: str, end_ms: int | None = None) -> None:
        """Sets a run's status, and when it has ended.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        ended = {} if end_ms is None else {"end_time": end_ms}
        self.request("POST", "runs/update", {"run_id": run_id, "status": status, **ended})

    def log_batch(
        self,
        run_id: str,
        *,
        metrics: Sequence[LoggedMetric] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Logs to a run, in as many requests as it takes.

        What was logged before is not logged twice, but for metrics on a server that keeps its runs in files.

        Raises:
            TrackerError: The server does not answer, or refuses; some of it may be logged.
        """
        pairs = list((params or {}).items())
        for start in range(0, len(pairs), MAX_PARAMS_A_BATCH):
            chosen = dict(pairs[start : start + MAX_PARAMS_A_BATCH])
            self._log(run_id, params=_encode_pairs(chosen, MAX_PARAM_VALUE))
        # Tags come with the last of the metrics: what they say of these is never true too early.
        told: dict[str, Any] = {"tags": _encode_pairs(tags, MAX_TAG_VALUE)} if tags else {}
        most = MAX_METRICS_A_BATCH - _MAX_TAGS
        for start in range(0, len(metrics), most):
            encoded = [_encode_metric(metric) for metric in metrics[start : start + most]]
            self._log(run_id, metrics=encoded, **(told if start + most >= len(metrics) else {}))
        if tags and not metrics:
            self._log(run_id, **told)

    def _log(self, run_id: str, **content: Any) -> None:
        self.request("POST", "runs/log-batch", {"run_id": run_id, **content})

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        """Sets a tag of a run.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        self.request("POST", "runs/set-tag", {"run_id": run_id, "key": key, "value": value[:MAX_TAG_VALUE]})

    def delete_tag(self, run_id: str, key: str) -> None:
        """Takes a tag off a run; one that it does not have is no error.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        try:
            self.request("POST", "runs/delete-tag", {"run_id": run_id, "key": key})
        except TrackerError as error:
            if error.code not in _ABSENT:
                raise

    # Requests

    def request(self, method: str, route: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Sends a request, and returns the answer.

        Args:
            method: GET or POST.
            route: What follows `/api/2.0/mlflow/`.
            content: What goes into the query of a GET, and into the body of others.

        Raises:
            TrackerError: The server does not answer, or refuses.
        """
        body: bytes | None = None
        query, headers = "", self._build_headers()
        if method == "GET":
            query = f"?{urlencode(content)}"
        else:
            body = json.dumps(content).encode()
            headers["Content-Type"] = "application/json"
        try:
            path = f"{urlsplit(self.uri).path.rstrip('/')}/api/2.0/mlflow/{route}{query}"
            response, data = self._exchange(method, path, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as error:  # the last of an address that is none
            self.close()
            said = str(error) or type(error).__name__
            raise TrackerError(f"no answer from MLflow at {self.uri}: {said}; it is asked again") from error
        if response.status != http.client.OK:
            self.close()
            raise _build_refusal(self.uri, route, response, data)
        try:
            answer = json.loads(data or b"{}")
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise TrackerError(f"{self.uri} does not answer as MLflow does; check trackers.mlflow.uri")
        return answer

    @contextmanager
    def _understand(self) -> Iterator[None]:
        """Says so of an answer that can't be read."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise TrackerError(f"{self.uri} does not answer as MLflow does; check trackers.mlflow.uri") from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Sends a request, once more if a kept connection was closed meanwhile: what is logged twice is there once."""
        is_kept = self._connection is not None
        try:
            return self._exchange_once(method, path, body, headers)
        except ConnectionError:
            self.close()
            if not is_kept or path.endswith("/create"):
                raise
        return self._exchange_once(method, path, body, headers)

    def _exchange_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        return response, response.read(MAX_TRACKER_ANSWER)

    def _connect(self) -> http.client.HTTPConnection:
        url = urlsplit(self.uri)
        if url.scheme != "https":
            return http.client.HTTPConnection(url.hostname or "", url.port, timeout=self._timeout)
        trust = ssl.create_default_context(cafile=self._ca_file or None)
        return http.client.HTTPSConnection(url.hostname or "", url.port, timeout=self._timeout, context=trust)

    def _build_headers(self) -> dict[str, str]:
        found = self._read_credentials()
        if token := found.get(MLFLOW_TOKEN):
            if not (token.isascii() and token.isprintable()):
                raise TrackerError(f"{MLFLOW_TOKEN} in trackers.mlflow.credentialsSecret is no token; correct it")
            return {"Authorization": f"Bearer {token}"}
        if user := found.get(MLFLOW_USERNAME):
            pair = f"{user}:{found.get(MLFLOW_PASSWORD, '')}".encode()
            return {"Authorization": f"Basic {b64encode(pair).decode()}"}
        return {}


def clean_name(name: str) -> str:
    """A name of a metric or parameter as MLflow takes it: it must be a path, too, and no other one's."""
    cleaned = _NOT_IN_NAMES.sub("_", name)[:MAX_METRIC_NAME]
    if posixpath.normpath(cleaned) != cleaned or cleaned.startswith(("/", "..")) or cleaned == ".":
        cleaned = cleaned.replace("/", "_").replace("..", "__")
    return "_" if cleaned in ("", ".") else cleaned


def _encode_metric(metric: LoggedMetric) -> dict[str, Any]:
    value: float | str = metric.value
    if not math.isfinite(metric.value):
        value = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(metric.value)]
    return {"key": clean_name(metric.key), "value": value, "timestamp": metric.time_ms, "step": metric.step}


def _encode_pairs(pairs: Mapping[str, str], longest: int) -> list[dict[str, str]]:
    return [{"key": clean_name(key), "value": value[:longest]} for key, value in pairs.items()]


def _read_run(run: Mapping[str, Any]) -> FoundRun:
    info, data = run["info"], run.get("data") or {}
    return FoundRun(
        run_id=str(info.get("run_id") or info["run_uuid"]),
        experiment_id=str(info.get("experiment_id", "")),
        status=str(info.get("status", "")),
        end_ms=int(info["end_time"]) if info.get("end_time") else None,
        tags=_read_pairs(data.get("tags") or ()),
        params=_read_pairs(data.get("params") or ()),
    )


def _read_pairs(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(entry["key"]): str(entry.get("value", "")) for entry in entries}


def _build_refusal(uri: str, route: str, response: http.client.HTTPResponse, data: bytes) -> TrackerError:
    try:
        said = json.loads(data)
        code, message = str(said.get("error_code", "")), str(said.get("message", ""))
    except (ValueError, AttributeError):
        code, message = "", data[:300].decode("utf-8", "replace").strip()
    text = f"MLflow at {uri} answers {response.status} {response.reason} to {route}: {message[:300]}"
    if response.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        text = f"{text}; check trackers.mlflow.credentialsSecret, and the server's allowed hosts"
        return TrackerError(text, code=code)
    is_refusal = response.status < http.client.INTERNAL_SERVER_ERROR and response.status not in _LATER
    return TrackerError(text, is_refusal=is_refusal, code=code)
