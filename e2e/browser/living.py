"""A cluster that changes as a test has it, and the source that follows it as it follows a real one."""

from __future__ import annotations

import queue
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from e2e.browser.experiments.kept import MadeExperiment
from podtune.cli.client.api_client import Api, Change
from podtune.dashboard.live.cluster_source import ClusterSource
from podtune.kube import paths
from podtune.kube.errors import Unanswered
from podtune.kube.manifests import Manifest

_EXPERIMENTS, _TRIALS = paths.experiments(), paths.trials()


class LivingCluster:
    """An API server with some Experiments and their Trials, of which only the watches are used.

    Attributes:
        experiment: The first of them, which is the one that changes.
    """

    def __init__(self, *made: MadeExperiment) -> None:
        """Has what was made."""
        self.source = ClusterSource(lambda: cast("Api", self), None, pause=lambda _: None)
        self.experiment = made[0].experiment
        self._others = [each.experiment for each in made[1:]]
        self._trials = {trial["metadata"]["name"]: trial for each in made for trial in each.trials}
        self._told: defaultdict[str, queue.SimpleQueue[Change | Exception | None]] = defaultdict(queue.SimpleQueue)
        self._list_all()

    def __enter__(self) -> LivingCluster:
        """Is followed from now on."""
        self.source.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Is followed no longer."""
        self.source.stop()
        for path in (_EXPERIMENTS, _TRIALS):
            self._told[path].put(None)

    def watch(
        self, path: str, params: Mapping[str, str] | None = None, is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Change]:
        """What has happened, and what happens."""
        while (told := self._told[path].get()) is not None:
            if isinstance(told, Exception):
                raise told
            yield told

    def put_trial(self, name: str, **status: Any) -> None:
        """A Trial appears, or its status changes."""
        known = self._trials.get(name) or self._make_trial(name)
        self._trials[name] = {**known, "status": {**known["status"], **status}}
        self._told[_TRIALS].put(Change("MODIFIED", self._trials[name]))

    def find_trial(self, name: str) -> Manifest:
        """A Trial as it is now."""
        return self._trials[name]

    def put_experiment(self, **status: Any) -> None:
        """The Experiment's status changes."""
        self._change_experiment({"status": {**self.experiment["status"], **status}})

    def delete_experiment(self, name: str = "") -> None:
        """An Experiment goes, the first if none is named, and with it its Trials."""
        gone = next(each for each in (self.experiment, *self._others) if name in ("", each["metadata"]["name"]))
        self._told[_EXPERIMENTS].put(Change("DELETED", gone))
        for trial in self._trials.values():
            if trial["spec"]["experiment"] == gone["metadata"]["name"]:
                self._told[_TRIALS].put(Change("DELETED", trial))

    def lose_server(self, reason: str) -> None:
        """The API server does not answer from now on."""
        for path in (_EXPERIMENTS, _TRIALS):
            self._told[path].put(Unanswered(reason))

    def answer_again(self) -> None:
        """The API server answers again, with all that there is by now."""
        self._list_all()

    def _change_experiment(self, parts: Manifest) -> None:
        self.experiment = {**self.experiment, **parts}
        self._told[_EXPERIMENTS].put(Change("MODIFIED", self.experiment))

    def _list_all(self) -> None:
        listed = {_EXPERIMENTS: [self.experiment, *self._others], _TRIALS: list(self._trials.values())}
        for path, items in listed.items():
            for change in (Change("RELISTED", {}), *(Change("ADDED", item) for item in items), Change("SYNCED", {})):
                self._told[path].put(change)

    def _make_trial(self, name: str) -> Manifest:
        experiment = self.experiment["metadata"]
        index = int(name.rpartition("-")[2])
        first = next(iter(self._trials.values()))["spec"]
        spec = {**first, "index": index, "proposal": {"number": index, "source": "Searcher"}}
        return {
            "metadata": {"name": name, "namespace": experiment["namespace"], "uid": name},
            "spec": spec,
            "status": {},
        }
