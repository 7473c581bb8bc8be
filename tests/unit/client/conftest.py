from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from podtune.cli.client import api_client
from podtune.client import Client
from podtune.kube import paths
from podtune.kube.manifests import Manifest
from tests.unit.cli.cli_fakes import NAMESPACE
from tests.unit.dashboard.live.live_api import LiveApi

MANIFEST = """\
apiVersion: podtune.dev/v1alpha1
kind: Experiment
metadata:
  name: digits
spec:
  objective: {metric: accuracy, mode: max}
  parameters:
  - {name: learning_rate, float: {min: 0.0001, max: 0.1, scale: log}}
  search: {algorithm: random, maxTrials: 24}
  trialTemplate:
    spec:
      containers:
      - {name: trial, image: example/digits:1}
"""


class ClusterApi(LiveApi):
    """A cluster of dictionaries whose watches tell what a test puts in."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[Exception] = []
        self.opened_watches = threading.Semaphore(0)

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[api_client.Change]:
        self.opened_watches.release()
        return super().watch(path, params, is_wanted)

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Manifest:
        if self.failures:
            raise self.failures.pop()
        return super().get(path, params)

    def tell(self, *changes: Manifest, trials: tuple[Manifest, ...] = ()) -> None:
        """Lists the first state of an Experiment, and then tells of the others."""
        first, *others = changes
        self.lists(paths.trials(NAMESPACE), *trials)
        self.lists(paths.experiments(NAMESPACE), first)
        self.tells(paths.experiments(NAMESPACE), *(api_client.Change("MODIFIED", item) for item in others))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterApi]:
    fake = ClusterApi()
    monkeypatch.setattr(api_client, "open_api", lambda kubeconfig, context, namespace: (fake, namespace or NAMESPACE))
    yield fake
    for path in (paths.experiments(NAMESPACE), paths.trials(NAMESPACE)):
        for _ in range(4):  # as many watches may wait there
            fake.told[path].put(None)


@pytest.fixture
def client(api: ClusterApi) -> Client:
    return Client()


def condition(type_: str, message: str = "") -> Manifest:
    return {"type": type_, "status": "True", "message": message}
