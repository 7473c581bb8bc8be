"""A dashboard with a login: a cluster that knows some people by their tokens, and what each of them may do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from e2e.browser.experiments.odd import make_new
from e2e.browser.experiments.simulated import (
    NAMESPACE,
    make_failing,
    make_hyperband,
    make_population,
    make_running,
    make_trade_off,
)
from e2e.browser.living import LivingCluster
from e2e.browser.serving import DEADLINE, serve_source
from e2e.browser.stored import StoreFolder
from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.cli.client.api_client import Api
from podtune.dashboard.access.gate import Access
from podtune.dashboard.access.reviews import Reviewer
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.app import AppSettings
from podtune.dashboard.live.object_reader import TokenReader
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest

ALICE, BOB, CAROL = "alice-token", "bob-token", "carol-token"
"""Alice may see and change what is in one namespace, Bob may see what is in another, and Carol nothing."""
ELSEWHERE = "mobile"
LOGGED = "resnet-live-13"
"""The trial whose pod has a log and Events, and whose results, log and checkpoints are in a store."""
LOG = tuple(f"epoch {epoch}: accuracy={1 - 0.7 / epoch:.4f} loss={0.9 / epoch:.4f}" for epoch in range(1, 57))
_UNMOUNTED = (
    'MountVolume.MountDevice failed for volume "imagenet": rpc error: code = DeadlineExceeded desc = context deadline '
    "exceeded"
)
_EVENTS = (
    ("00:11:02", "Scheduled", "", "Successfully assigned vision/resnet-live-13-1 to gpu-3"),
    ("00:11:05", "FailedMount", "", _UNMOUNTED),
    ("00:11:31", "Pulling", "trial", 'Pulling image "registry.example/resnet:1"'),
    ("00:12:48", "Pulled", "trial", 'Successfully pulled image "registry.example/resnet:1" in 1m17.204s'),
    ("00:13:02", "Created", "podtune-agent", "Created container: podtune-agent"),
    ("00:13:29", "Started", "trial", "Started container trial"),
)
_PEOPLE = {ALICE: "alice@example.com", BOB: "bob@example.com", CAROL: "carol@example.com"}
_POD: Manifest = {"metadata": {}, "spec": {"containers": [{"name": "trial"}]}}
_RIGHTS = {
    (_PEOPLE[ALICE], NAMESPACE): ("list", "patch"),
    (_PEOPLE[BOB], ELSEWHERE): ("list",),
}


class TeamCluster(LivingCluster):
    """Experiments of two namespaces, of which one was deleted.

    Attributes:
        patched: The path and the body of each change that was asked for, and the token that it came with.
        answers: Until it is set, nobody is given a log.
    """

    def __init__(self) -> None:
        """Everything is there, and nobody has done anything yet."""
        elsewhere = [each.move(ELSEWHERE) for each in (make_trade_off(), make_hyperband())]
        super().__init__(make_running(), make_failing(), make_population(), make_new(), *elsewhere)
        pod = f"{LOGGED}-1"
        self.put_trial(LOGGED, attempt=1, pod={"name": pod, "uid": "uid-pod", "node": "gpu-3"})
        self.delete_experiment(make_new().name)
        self.patched: list[tuple[str, Mapping[str, Any], str]] = []
        self.answers = threading.Event()
        self.answers.set()
        self._pod = paths.pod(NAMESPACE, pod)
        self._token = ""

    def connect_as(self, token: str) -> Api:
        """As somebody who has logged in."""
        self._token = token
        return cast("Api", self)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        """One object."""
        metadata = self.experiment["metadata"]
        objects = {paths.experiment(metadata["namespace"], metadata["name"]): self.experiment, self._pod: _POD}
        objects |= {paths.trial(each["metadata"]["namespace"], name): each for name, each in self._trials.items()}
        if path not in objects:
            raise ResourceNotFound(404, "NotFound", f"{path} not found")
        return objects[path]

    def read_lines(
        self, path: str, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Iterator[str]:
        """The log of a pod."""
        assert path == paths.log_of(self._pod)
        self.answers.wait(DEADLINE)
        yield from LOG

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Manifest]:
        """The Events of the pod that has some."""
        is_known = path == paths.core_events(NAMESPACE) and f"name={LOGGED}-1" in (params or {})["fieldSelector"]
        return [_make_event(*event) for event in _EVENTS] if is_known else []

    def patch(self, path: str, change: Mapping[str, Any]) -> Manifest:
        """The Experiment is asked to change."""
        self.patched.append((path, change, self._token))
        self._change_experiment({"spec": {**self.experiment["spec"], **change["spec"]}})
        return self.experiment

    def create(self, path: str, item: Mapping[str, Any], params: Mapping[str, str] | None = None) -> Manifest:
        """Says whose a token is, and who may do what."""
        spec = item["spec"]
        if path == paths.TOKEN_REVIEWS:
            name = _PEOPLE.get(spec["token"])
            return {"status": {"authenticated": True, "user": {"username": name}} if name else {"error": "unknown"}}
        asked = spec["resourceAttributes"]
        verbs = _RIGHTS.get((spec["user"], asked.get("namespace", "")), ())
        if asked["resource"] == "pods":  # who may list may read logs
            return {"status": {"allowed": "list" in verbs}}
        return {
            "status": {"allowed": asked["resource"] in (EXPERIMENT_PLURAL, TRIAL_PLURAL) and asked["verb"] in verbs}
        }


def _make_event(clock: str, reason: str, container: str, note: str) -> Manifest:
    time = f"2026-03-01T{clock}Z"
    return {
        "type": "Warning" if reason.startswith("Failed") else "Normal",
        "reason": reason,
        "message": note,
        "involvedObject": {"fieldPath": f"spec.containers{{{container}}}" if container else ""},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 3 if reason.startswith("Failed") else 1,
    }


@contextmanager
def serve_team(cluster: TeamCluster) -> Iterator[str]:
    """Serves its dashboard, with actions and a store, while the context lasts; returns the first page's address."""
    reviewer, reader = Reviewer(lambda: cast("Api", cluster)), TokenReader(cluster.connect_as)
    access = Access(reviewer, timedelta(hours=1), ProxyTrust(), offers_actions=True)
    with closing(reviewer), TemporaryDirectory() as directory, cluster:
        store, trial = StoreFolder(Path(directory), cluster.experiment), cluster.find_trial(LOGGED)
        store.store_results(trial)
        store.store_log(trial, LOG)
        cluster.put_trial(LOGGED, checkpoints=store.store_checkpoints(trial))
        settings = AppSettings(access=access, connect_as=cluster.connect_as, reader=reader, stores=store)
        with serve_source(cluster.source, settings=settings) as address:
            yield address


@contextmanager
def serve_outage() -> Iterator[str]:
    """Serves a dashboard that is open to everybody, and has lost its API server."""
    access = Access(None, timedelta(hours=1), ProxyTrust())
    with (
        LivingCluster(make_running()) as cluster,
        serve_source(cluster.source, settings=AppSettings(access=access)) as at,
    ):
        cluster.lose_server("https://10.0.0.1:6443 can't be reached: no route to host")
        yield at
