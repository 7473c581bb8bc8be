"""A cluster of dictionaries with an operator that does what checks expect; its clock goes as far as somebody sleeps."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from podtune import __version__
from podtune.api.names import LABEL_EXPERIMENT, LABEL_LEADER, LABEL_TRIAL, DesiredState
from podtune.cli.commands.conformance.program import compute_value
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import FakeApi

HOME = "podtune-system"
KEYS = {"accessKeyID": "a2V5", "secretAccessKey": "a2V5"}


class ConformingCluster(FakeApi):
    """Each sleep is a step of all programs, and of the operator.

    Attributes:
        now: The time in seconds.
        denied: Rights that the caller lacks: namespace, verb and resource.
        flaw: What this operator does wrong; empty for nothing.
        programs: By the name of their Experiment.
    """

    def __init__(self, namespace: str = "podtune-conformance", flaw: str = "") -> None:
        super().__init__()
        self.now = 0.0
        self.denied: set[tuple[str, str, str]] = set()
        self.flaw = flaw
        self.space = namespace
        self._created = self._operators = 0
        self.programs: dict[str, Program] = {}
        self._start_operator()
        self.objects[paths.SERVER_VERSION] = {"gitVersion": "v1.34.1"}

    def install_store(self) -> None:
        """The S3 server of the chart."""
        annotations = {"podtune.dev/bucket": "podtune", "podtune.dev/credentials-secret": "s3-keys"}
        labels = {"app.kubernetes.io/part-of": "podtune", "app.kubernetes.io/component": "s3"}
        metadata = {"name": "podtune-s3", "labels": labels, "annotations": annotations}
        service = {"metadata": metadata, "spec": {"ports": [{"name": "s3", "port": 9000}]}}
        self.objects[paths.name_in(paths.services(HOME), "podtune-s3")] = service
        self.objects[paths.secret(HOME, "s3-keys")] = {"metadata": {"name": "s3-keys"}, "data": KEYS}

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if not self._list_operators():
            if self.flaw != "stays away":
                self._start_operator()
            return
        for name, program in list(self.programs.items()):
            if paths.experiment(self.space, name) not in self.objects:
                del self.programs[name]
            elif self.flaw != "idle":
                program.advance()

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        wanted = [word.partition("=") for word in (params or {}).get("labelSelector", "").split(",") if word]
        return [
            item
            for item in super().list_all(path, params)
            if all(_has_label(item, name, value) for name, _, value in wanted)
        ]

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        if path == paths.SELF_ACCESS_REVIEWS:
            asked = item["spec"]["resourceAttributes"]
            resource = "/".join(part for part in (asked["resource"], asked.get("subresource")) if part)
            return {"status": {"allowed": (asked["namespace"], asked["verb"], resource) not in self.denied}}
        if path.endswith("/eviction"):
            self._take_away(path.removesuffix("/eviction"))
            return {"kind": "Status"}
        made = super().create(path, deepcopy(dict(item)), params)
        self._created += 1
        made["metadata"]["uid"] = f"created-{self._created}"
        name = made["metadata"]["name"]
        if path == paths.experiments(self.space):
            self.programs[name] = Program(self, name, made)
        elif path == paths.pods(self.space):
            made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        elif path == paths.resource_quotas(self.space):
            made["status"] = {"hard": made["spec"]["hard"]}
        return made

    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        super().patch(path, change)
        _merge(self.objects[path], change)
        return self.objects[path]

    def delete(self, path: str, uid: str, grace: int | None = None) -> None:
        if path.startswith(f"{paths.pods(self.space)}/") and LABEL_TRIAL in self.get(path)["metadata"].get(
            "labels", {}
        ):
            self._take_away(path)
            return
        super().delete(path, uid, grace)
        if path == paths.namespace(self.space):
            for other in [other for other in self.objects if f"/namespaces/{self.space}/" in other]:
                del self.objects[other]

    def holds_pods_back(self) -> bool:
        """Whether the quota leaves no room."""
        quotas = self.list_all(paths.resource_quotas(self.space))
        return any(quota["spec"]["hard"]["pods"] == "0" for quota in quotas)

    def reaches_store(self, endpoint: str) -> bool:
        """Whether a server is there that is known by this URL."""
        return "conformance-store" not in endpoint or paths.pod(self.space, "conformance-store") in self.objects

    def _take_away(self, path: str) -> None:
        del self.objects[path]
        self.deleted.append(path)
        self.programs[path.rpartition("/")[2].rsplit("-", 2)[0]].lose_pod(
            "failures" if self.flaw == "blames" else "disruptions"
        )

    def _list_operators(self) -> list[Manifest]:
        return self.list_all(paths.pods(HOME), {"labelSelector": LABEL_LEADER})

    def _start_operator(self) -> None:
        self._operators += 1
        labels = {
            "app.kubernetes.io/part-of": "podtune",
            "app.kubernetes.io/component": "operator",
            "app.kubernetes.io/version": __version__,
            LABEL_LEADER: "true",
        }
        env = [{"name": "PODTUNE_AGENT_IMAGE", "value": "podtune-agent:1"}, {"name": "PODTUNE_NAMESPACES", "value": ""}]
        name = f"podtune-{self._operators}"
        self.objects[paths.pod(HOME, name)] = {
            "metadata": {"name": name, "uid": name, "labels": labels},
            "spec": {"containers": [{"name": "operator", "env": env}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }


class Program:
    """The one trial of an Experiment, and its program."""

    def __init__(self, cluster: ConformingCluster, name: str, experiment: Manifest) -> None:
        self._cluster, self._name, self._experiment = cluster, name, experiment
        (container,) = experiment["spec"]["trialTemplate"]["spec"]["containers"]
        self._env = {entry["name"]: entry["value"] for entry in container["env"]}
        self._store = (experiment["spec"].get("checkpoints") or {}).get("store")
        self._epoch = self._stored = self._start = 0
        self._unstored = 0
        self._answered = ""
        self._status: Manifest = {"state": "PENDING", "attempt": 0}

    @property
    def _trial(self) -> Manifest:
        path = paths.trial(self._cluster.space, f"{self._name}-0")
        return self._cluster.objects.setdefault(path, {"metadata": {"name": f"{self._name}-0"}, "spec": {}})

    @property
    def _pod(self) -> str:
        return paths.pod(self._cluster.space, f"{self._name}-0-{self._status['attempt']}")

    def lose_pod(self, counted: str) -> None:
        self._status[counted] = self._status.get(counted, 0) + 1

    def advance(self) -> None:
        """Goes on by one step."""
        if self._status["state"] != "TERMINATED":
            self._step()
        self._trial["status"] = dict(self._status)
        ended = self._status["state"] == "TERMINATED"
        conditions = [{"type": "Complete", "status": "True"}] if ended else []
        self._experiment["status"] = {"state": "Complete" if ended else "Running", "conditions": conditions}

    def _step(self) -> None:
        if self._trial["spec"].get("desiredState") == DesiredState.PAUSED:
            self._cluster.objects.pop(self._pod, None)
            self._status["state"] = "PAUSED"
        elif self._pod not in self._cluster.objects:
            self._begin_attempt()
        else:
            self._train()

    def _begin_attempt(self) -> None:
        if self._cluster.holds_pods_back():
            words = "can't create the pod: exceeded quota: conformance"
            self._status |= {"state": "PENDING", "reason": "Queued", "message": words}
            return
        self._status |= {"state": "RUNNING", "attempt": self._status["attempt"] + 1, "reason": "", "message": ""}
        afresh = self._cluster.flaw == "forgets"
        self._epoch = self._start = 0 if afresh else self._stored
        labels = {LABEL_EXPERIMENT: self._name, LABEL_TRIAL: f"{self._name}-0"}
        body = {"metadata": {"name": self._pod.rpartition("/")[2], "uid": self._pod, "labels": labels}}
        self._cluster.objects[self._pod] = body | {"status": {"phase": "Running"}}

    def _train(self) -> None:
        holds = [int(epoch) for epoch in self._env.get("HOLD_AT", "").split()]
        first = self._status["attempt"] == 1
        if first and self._epoch + 1 in holds:
            request = (self._trial["spec"].get("checkpointRequest") or {}).get("id", "")
            self._sync()
            if "RELEASED_BY_REQUEST" not in self._env or request == self._answered:
                return
            self._answered = request
            if self._env.get("THEN") == "crash":
                del self._cluster.objects[self._pod]
                self.lose_pod("failures")
                return
        self._epoch += 1
        self._status |= {
            "iteration": self._epoch,
            "lastResult": {"value": str(compute_value(self._epoch)), "start": str(self._start)},
        }
        if not (first and "RELEASED_BY_REQUEST" in self._env and self._epoch + 1 in holds):
            self._unstored = self._epoch
        self._sync()
        if self._epoch == int(self._env["EPOCHS"]):
            self._status["state"] = "TERMINATED"
            del self._cluster.objects[self._pod]

    def _sync(self) -> None:
        """Stores the newest checkpoint, if the store is there."""
        if self._store is None:
            return
        there = self._cluster.reaches_store(self._store.get("endpoint", ""))
        is_told = not there and self._cluster.flaw != "believes"
        self._status["conditions"] = [{"type": "CheckpointsStored", "status": "False"}] if is_told else []
        if there and self._unstored:
            self._stored = self._unstored
            self._status["checkpoint"] = {"step": self._stored}


def _has_label(item: Manifest, name: str, value: str) -> bool:
    """Whether an object has a label, whatever its value if none is given."""
    labels = item["metadata"].get("labels") or {}
    return name in labels and (not value or labels[name] == value)


def _merge(item: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping):
            _merge(item.setdefault(key, {}), value)
        elif value is None:
            item.pop(key, None)
        else:
            item[key] = value
