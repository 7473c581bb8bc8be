"""A tracking server in a thread of the test, that does with runs what MLflow's SQL store does.

Parameters can't be changed, a metric's value that is there already is not there twice, and names are checked. The long
test holds it to a real server.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_CONDITION = re.compile(r"tags\.`([^`]+)` = '([^']*)'")
_NAME = re.compile(r"[/\w.\- ]{1,250}")


class Refusal(Exception):
    """A request that is not taken."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass
class ReceivedRun:
    """A run; metrics are tuples of name, step and value, in the order in which they came."""

    run_id: str
    experiment_id: str
    start_time: int
    status: str = "RUNNING"
    end_time: int | None = None
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: list[tuple[str, int, float | str]] = field(default_factory=list)
    statuses: list[str] = field(default_factory=lambda: ["RUNNING"])
    seen: set[tuple[Any, ...]] = field(default_factory=set)

    def describe(self) -> dict[str, Any]:
        pairs = {kind: [{"key": k, "value": v} for k, v in getattr(self, kind).items()] for kind in ("params", "tags")}
        info = {"run_id": self.run_id, "experiment_id": self.experiment_id, "status": self.status}
        ended = {} if self.end_time is None else {"end_time": self.end_time}
        return {"info": info | ended, "data": pairs}


class MlflowReceiver:
    """Keeps what it is told; `faults` are HTTP statuses that are used up one a request, 0 for no answer at all."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, ReceivedRun] = {}
        self.faults: list[int] = []
        self.is_down = False
        self.authorizations: set[str] = set()
        self.requests: list[str] = []
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self._serve(dict(parse_qsl(urlsplit(self.path).query)))

            def do_POST(self) -> None:
                self._serve(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _serve(self, content: dict[str, Any]) -> None:
                route = urlsplit(self.path).path.removeprefix("/api/2.0/mlflow/")
                status, answer = receiver.answer(route, content, self.headers.get("Authorization", ""))
                if not status:
                    self.close_connection = True
                    return
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.01), daemon=True).start()

    @property
    def uri(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    @property
    def run(self) -> ReceivedRun:
        """The only one."""
        (run,) = self.runs.values()
        return run

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait_for(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, seconds), "the receiver waited in vain"

    def answer(self, route: str, content: dict[str, Any], authorization: str) -> tuple[int, dict[str, Any]]:
        with self.changed:
            self.requests.append(route)
            self.authorizations.add(authorization)
            fault = 503 if self.is_down else self.faults.pop(0) if self.faults else 200
            try:
                if fault != 200:
                    return fault, {}
                name = "_" + route.replace("/", "_").replace("-", "_")
                if not hasattr(self, name):
                    raise Refusal(404, "ENDPOINT_NOT_FOUND", f"no {route}")
                return 200, getattr(self, name)(content) or {}
            except Refusal as refusal:
                return refusal.status, {"error_code": refusal.code, "message": str(refusal)}
            finally:
                self.changed.notify_all()

    def _experiments_get_by_name(self, content: dict[str, Any]) -> dict[str, Any]:
        for experiment_id, name in self.experiments.items():
            if name == content["experiment_name"]:
                return {"experiment": {"experiment_id": experiment_id, "name": name, "lifecycle_stage": "active"}}
        raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "there is none")

    def _experiments_create(self, content: dict[str, Any]) -> dict[str, Any]:
        if content["name"] in self.experiments.values():
            raise Refusal(400, "RESOURCE_ALREADY_EXISTS", "there is one")
        self.experiments[str(len(self.experiments) + 1)] = content["name"]
        return {"experiment_id": str(len(self.experiments))}

    def _runs_search(self, content: dict[str, Any]) -> dict[str, Any]:
        wanted = dict(_CONDITION.findall(content["filter"]))
        assert wanted, content["filter"]
        found = [
            run.describe()
            for run in sorted(self.runs.values(), key=lambda run: run.start_time)
            if run.experiment_id in content["experiment_ids"] and wanted.items() <= run.tags.items()
        ]
        at = int(content.get("page_token") or 0)
        page = found[at : at + content["max_results"]]
        rest = {"next_page_token": str(at + len(page))} if at + len(page) < len(found) else {}
        return {"runs": page, **rest}

    def _runs_create(self, content: dict[str, Any]) -> dict[str, Any]:
        run = ReceivedRun(f"{len(self.runs) + 1:032x}", content["experiment_id"], content["start_time"])
        run.tags |= {tag["key"]: tag["value"] for tag in content["tags"]}
        self.runs[run.run_id] = run
        return {"run": run.describe()}

    def _runs_update(self, content: dict[str, Any]) -> None:
        run = self._find(content)
        run.status, run.end_time = content["status"], content.get("end_time")
        run.statuses.append(run.status)

    def _runs_log_batch(self, content: dict[str, Any]) -> None:
        run = self._find(content)
        entries = {kind: content.get(kind, []) for kind in ("metrics", "params", "tags")}
        if any(len(found) > most for found, most in zip(entries.values(), (1000, 100, 100), strict=True)):
            raise Refusal(400, "INVALID_PARAMETER_VALUE", "too many at once")
        for entry in (*entries["metrics"], *entries["params"]):
            if not _NAME.fullmatch(entry["key"]):
                raise Refusal(400, "INVALID_PARAMETER_VALUE", f"Invalid name {entry['key']}")
        for param in entries["params"]:
            if run.params.setdefault(param["key"], param["value"]) != param["value"]:
                raise Refusal(400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed")
        for metric in entries["metrics"]:
            identity = tuple(str(metric[name]) for name in ("key", "timestamp", "step", "value"))
            if identity not in run.seen:
                run.seen.add(identity)
                run.metrics.append((metric["key"], metric["step"], metric["value"]))
        run.tags |= {tag["key"]: tag["value"] for tag in entries["tags"]}

    def _runs_set_tag(self, content: dict[str, Any]) -> None:
        self._find(content).tags[content["key"]] = content["value"]

    def _runs_delete_tag(self, content: dict[str, Any]) -> None:
        if self._find(content).tags.pop(content["key"], None) is None:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "no such tag")

    def _metrics_get_history(self, content: dict[str, Any]) -> dict[str, Any]:
        logged = [metric for metric in self._find(content).metrics if metric[0] == content["metric_key"]]
        return {"metrics": [{"key": key, "step": step, "value": value} for key, step, value in logged]}

    def _find(self, content: dict[str, Any]) -> ReceivedRun:
        if content["run_id"] not in self.runs:
            raise Refusal(404, "RESOURCE_DOES_NOT_EXIST", "no such run")
        return self.runs[content["run_id"]]
