"""Results of programs that log to MLflow: the agent answers as a tracking server does, as far as logging goes.

Runs are kept in memory, and one that is not known is taken for one that an earlier process of this agent has begun. So
nothing that a program may do on a real server fails because the agent was started again. Models and other artifacts
stay in the pod: their address is a directory that it shares with the agent, where the client writes them itself.
Whatever is not known here is refused as by a server of an earlier release, and programs go on.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from podtune.agent.endpoint.requests import BadRequest, HttpAnswer, Request
from podtune.agent.endpoint.results_writer import ResultsWriter
from podtune.agent.endpoint.tracked_runs import NAME_TAG, TrackedMetric, TrackedRun, keep_value
from podtune.storage.directory import Directory

_Value = TypeVar("_Value")
_FOLDER = "mlflow"
"""Where artifacts are, in the shared directory."""
_PREFIX = re.compile(r"/(?:ajax-)?api/2\.0/mlflow/")
_OTHERS = ("/api/", "/ajax-api/", "/version", "/health")
_MODEL = re.compile(r"logged-models/(m-[0-9a-f]{32})(/params|/tags)?")
_RUN_ID = re.compile(r"[0-9a-zA-Z_-]{1,64}")
_MAX_RUNS = 1000
"""Runs and models that are kept, and names of experiments; of more, the latest."""
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
_ERRORS = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    404: "ENDPOINT_NOT_FOUND",
    411: "BAD_REQUEST",
    413: "REQUEST_LIMIT_EXCEEDED",
    503: "TEMPORARILY_UNAVAILABLE",
}
_Route = Callable[[Mapping[str, Any]], dict[str, Any]]


def draw_random_id() -> str:
    """An id as MLflow's server makes them."""
    return os.urandom(16).hex()


class MlflowTracking:
    """The routes of a tracking server; see `Source`."""

    def __init__(
        self,
        directory: Directory,
        objective: str,
        writer: ResultsWriter,
        draw_id: Callable[[], str] = draw_random_id,
    ) -> None:
        """Answers from now on.

        Args:
            directory: The shared one; artifacts are below it.
            objective: Each of its values is a result.
            writer: Where results go.
            draw_id: Makes the id of a run or of a model.
        """
        self._draw_id = draw_id
        self._artifacts = directory.root.joinpath(*directory.names, _FOLDER)
        self._objective = objective
        self._writer = writer
        self._lock = threading.Lock()
        self._runs: dict[str, TrackedRun] = {}
        self._models: dict[str, dict[str, Any]] = {}
        self._experiments = {"0": "Default"}
        self._asked_experiment = "0"
        """What the program has asked for last: clients refuse to go on with a run of any other one."""
        self._routes: dict[tuple[str, str], _Route] = {
            ("GET", "experiments/get-by-name"): self._get_experiment,
            ("GET", "experiments/get"): self._get_experiment,
            ("POST", "experiments/create"): self._create_experiment,
            ("POST", "experiments/search"): self._search_experiments,
            ("POST", "experiments/set-experiment-tag"): _ignore,
            ("POST", "runs/create"): self._create_run,
            ("POST", "runs/update"): self._update_run,
            ("GET", "runs/get"): self._get_run,
            ("POST", "runs/search"): self._search_runs,
            ("GET", "metrics/get-history"): self._get_history,
            ("POST", "runs/log-metric"): self._log_metric,
            ("POST", "runs/log-batch"): self._log_batch,
            ("POST", "runs/log-parameter"): self._log_parameter,
            ("POST", "runs/set-tag"): self._set_tag,
            ("POST", "runs/delete-tag"): self._delete_tag,
            ("POST", "runs/log-model"): _ignore,
            ("POST", "runs/log-inputs"): _ignore,
            ("POST", "runs/outputs"): _ignore,
            ("POST", "logged-models"): self._create_model,
            ("POST", "logged-models/search"): self._search_models,
        }

    def is_asked(self, path: str) -> bool:
        """See `Source`."""
        return path.startswith(_OTHERS)

    def answer(self, request: Request) -> HttpAnswer:
        """See `Source`."""
        prefix = _PREFIX.match(request.path)
        name = request.path[prefix.end() :] if prefix else ""
        route = self._routes.get((request.method, name))
        content: Mapping[str, Any] = request.query
        if request.method != "GET":
            content = request.parse_body() if request.body else {}
        with self._lock:
            if route is not None:
                return HttpAnswer(200, route(content))
            if model := _MODEL.fullmatch(name):
                return HttpAnswer(200, self._change_model(model[1], content))
        return self.refuse(404, f"{request.method} {request.path} is not known to Podtune's agent")

    def refuse(self, status: int, problem: str) -> HttpAnswer:
        """See `Source`."""
        return HttpAnswer(status, {"error_code": _ERRORS.get(status, "BAD_REQUEST"), "message": problem})

    # Experiments: each name has one, whose id follows from the name

    def _get_experiment(self, content: Mapping[str, Any]) -> dict[str, Any]:
        name = content.get("experiment_name")
        self._asked_experiment = self._learn_experiment(str(name)) if name else str(content.get("experiment_id") or "0")
        return self._describe_experiment(self._asked_experiment)

    def _create_experiment(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._asked_experiment = self._learn_experiment(str(content.get("name")))
        return {"experiment_id": self._asked_experiment}

    def _search_experiments(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"experiments": [self._describe_experiment(each)["experiment"] for each in self._experiments]}

    def _learn_experiment(self, name: str) -> str:
        experiment_id = "0" if name == "Default" else str(zlib.crc32(name.encode("utf-8", "replace")))
        _remember(self._experiments, experiment_id, name)
        return experiment_id

    def _describe_experiment(self, experiment_id: str) -> dict[str, Any]:
        name = self._experiments.get(experiment_id, f"experiment {experiment_id}")
        place = {"artifact_location": self._artifacts.as_uri(), "lifecycle_stage": "active"}
        return {"experiment": {"experiment_id": experiment_id, "name": name, **place}}

    # Runs

    def _create_run(self, content: Mapping[str, Any]) -> dict[str, Any]:
        run = self._begin_run(self._draw_id(), content)
        for key, value in _read_pairs(content, "tags"):
            keep_value(run.tags, key, value)
        run.tags.setdefault(NAME_TAG, str(content.get("run_name") or run.run_id))
        return {"run": self._describe(run)}

    def _update_run(self, content: Mapping[str, Any]) -> dict[str, Any]:
        run = self._find_run(content)
        if name := content.get("run_name"):
            run.tags[NAME_TAG] = str(name)
        run.end_time = _read_int(content, "end_time") or run.end_time
        run.status = str(content.get("status") or run.status)
        if run.status in _ENDED and (rest := run.build_rest()):
            self._writer.append(rest)
            run.has_result = True
        return {"run_info": run.describe_info(self._locate(run.run_id))}

    def _get_run(self, content: Mapping[str, Any]) -> dict[str, Any]:
        return {"run": self._describe(self._find_run(content))}

    def _search_runs(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """All runs of the experiments, whatever filter there is: programs look for earlier ones of their own."""
        wanted = content.get("experiment_ids") or []
        if content.get("filter"):
            return {"runs": []}
        return {"runs": [self._describe(run) for run in self._runs.values() if run.experiment_id in wanted]}

    def _get_history(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The latest value alone: a model is given those that were logged before it."""
        latest = self._find_run(content).latest.get(str(content.get("metric_key")))
        return {"metrics": [] if latest is None else [latest.describe()]}

    def _log_metric(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._log(self._find_run(content), [_read_metric(content)])
        return {}

    def _log_batch(self, content: Mapping[str, Any]) -> dict[str, Any]:
        run = self._find_run(content)
        for key, value in _read_pairs(content, "params"):
            keep_value(run.params, key, value)
        for key, value in _read_pairs(content, "tags"):
            keep_value(run.tags, key, value)
        self._log(run, [_read_metric(entry) for entry in _read_list(content, "metrics")])
        return {}

    def _log_parameter(self, content: Mapping[str, Any]) -> dict[str, Any]:
        keep_value(self._find_run(content).params, *_read_pair(content))
        return {}

    def _set_tag(self, content: Mapping[str, Any]) -> dict[str, Any]:
        keep_value(self._find_run(content).tags, *_read_pair(content))
        return {}

    def _delete_tag(self, content: Mapping[str, Any]) -> dict[str, Any]:
        self._find_run(content).tags.pop(str(content.get("key")), None)
        return {}

    def _log(self, run: TrackedRun, metrics: list[TrackedMetric]) -> None:
        for result in run.log(metrics, self._objective):
            self._writer.append(result)
            run.has_result = True

    def _find_run(self, content: Mapping[str, Any]) -> TrackedRun:
        run_id = content.get("run_id") or content.get("run_uuid")
        if not isinstance(run_id, str) or not _RUN_ID.fullmatch(run_id):
            raise BadRequest(f"run_id is {run_id!r:.80}, not the id of a run; send that of a run that was created")
        return self._runs.get(run_id) or self._begin_run(run_id, content)

    def _begin_run(self, run_id: str, content: Mapping[str, Any]) -> TrackedRun:
        start = _read_int(content, "start_time") or time.time_ns() // 1_000_000
        experiment_id = str(content.get("experiment_id") or self._asked_experiment)
        run = TrackedRun(run_id, experiment_id, str(content.get("user_id") or ""), start)
        _remember(self._runs, run_id, run)
        return run

    def _describe(self, run: TrackedRun) -> dict[str, Any]:
        return run.describe(self._locate(run.run_id))

    def _locate(self, *names: str) -> str:
        """Where the client writes artifacts."""
        return self._artifacts.joinpath(*names, "artifacts").as_uri()

    # Models

    def _create_model(self, content: Mapping[str, Any]) -> dict[str, Any]:
        model_id = f"m-{self._draw_id()}"
        info = {
            "model_id": model_id,
            "experiment_id": str(content.get("experiment_id") or "0"),
            "name": str(content.get("name") or model_id),
            "model_type": str(content.get("model_type") or ""),
            "source_run_id": str(content.get("source_run_id") or ""),
            "tags": _read_list(content, "tags"),
        }
        _remember(self._models, model_id, info)
        return self._describe_model(model_id)

    def _search_models(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"models": []}

    def _change_model(self, model_id: str, content: Mapping[str, Any]) -> dict[str, Any]:
        """Answers what is asked of one model, or changed of it: of that, its status is kept."""
        if status := content.get("status"):
            _remember(self._models, model_id, {**self._models.get(model_id, {}), "status": str(status)})
        return self._describe_model(model_id)

    def _describe_model(self, model_id: str) -> dict[str, Any]:
        now = time.time_ns() // 1_000_000
        known = {
            "experiment_id": "0",
            "name": model_id,
            "status": "LOGGED_MODEL_PENDING",
            **self._models.get(model_id, {}),
        }
        place = {"artifact_uri": self._locate("models", model_id)}
        times = {"creation_timestamp_ms": now, "last_updated_timestamp_ms": now}
        return {"model": {"info": {**times, **known, "model_id": model_id, **place}, "data": {}}}


def _ignore(_: Mapping[str, Any]) -> dict[str, Any]:
    """Takes what makes no result."""
    return {}


def _remember(known: dict[str, _Value], key: str, value: _Value) -> None:
    """Keeps what was heard of last."""
    known[key] = value
    if len(known) > _MAX_RUNS:
        del known[next(iter(known))]


def _read_list(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    entries = content.get(name) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadRequest(f"{name} is not a list of objects; send one")
    return entries


def _read_pairs(content: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    return [_read_pair(entry) for entry in _read_list(content, name)]


def _read_pair(entry: Mapping[str, Any]) -> tuple[str, str]:
    key = entry.get("key")
    if not isinstance(key, str) or not key:
        raise BadRequest(f"key is {key!r:.80}, not a name; send one")
    return key, str(entry.get("value", ""))


def _read_metric(entry: Mapping[str, Any]) -> TrackedMetric:
    key, value = _read_pair(entry)
    try:
        number = float(value)
    except ValueError as error:
        raise BadRequest(f"metric {key:.80} is {value!r:.80}, not a number; send one") from error
    return TrackedMetric(key, number, _read_int(entry, "timestamp"), _read_int(entry, "step"))


def _read_int(entry: Mapping[str, Any], name: str) -> int:
    """A whole number, which the JSON of messages may have as a text; 0 where it is missing."""
    value = entry.get(name)
    try:
        number = float(value or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(f"{name} is {value!r:.80}, not a whole number; send one") from error
    if not math.isfinite(number) or abs(number) >= 1 << 63:
        raise BadRequest(f"{name} is {value!r:.80}, not a whole number of 64 bits; send one")
    return int(number)
