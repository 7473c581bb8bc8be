"""Experiments that come and go, and what befalls their pods."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from random import Random

from e2e.containers import kill_container
from e2e.devcluster.errors import ClusterError
from e2e.disruptions import evict
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, condition
from e2e.trials import EXPERIMENTS, TRIALS

AT_ONCE = 3
LASTING = "lasting"
"""The experiment whose one trial trains all the time, and is left alone."""
KEPT_RESULTS = "256Ki"
"""What is kept of its results. An agent holds the segment that it fills, here an eighth of that: the results of three
minutes. By default, one takes longer to fill than a soak, and would look like a leak."""
SMALL: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
FAULTS: dict[str, Callable[[Kubernetes, Object], None]] = {
    "evicted": lambda namespace, pod: evict(namespace, pod["metadata"]["name"]),
    "deleted": lambda namespace, pod: _delete(namespace, pod, "--grace-period=5"),
    "lost": lambda namespace, pod: _delete(namespace, pod, "--grace-period=0", "--force"),
    "killed": lambda _, pod: _kill(pod, "containerStatuses", "trial"),
    "agent killed": lambda _, pod: _kill(pod, "initContainerStatuses", "podtune-agent"),
}
"""What befalls a pod, by its name."""
MAX_TRIALS = 8
MOST_SECONDS = 480.0
"""An experiment that hasn't ended, or isn't gone once it is deleted, within so many seconds is stuck: they take two
minutes or so."""
LEAST_PER_MINUTE = 0.5
"""How many experiments come to their end, and how many faults strike, in a minute at least: a soak with fewer of them
has not worked. Two of each are usual."""


@dataclass(slots=True)
class Load:
    """Keeps a few experiments at work, each of another kind than the one before it.

    Attributes:
        namespace: Where they are.
        random: Chooses pods and faults.
        monotonic: The time, in seconds.
        faults: How often each fault has struck.
        ended: How many experiments have come to a good end.
        problems: Experiments that came to another end than they should, or to none.
    """

    namespace: Kubernetes
    random: Random
    monotonic: Callable[[], float] = time.monotonic
    faults: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    problems: list[str] = field(default_factory=list)
    _begun: int = 0
    _going: dict[str, float] = field(default_factory=dict)
    _deleted: dict[str, float] = field(default_factory=dict)

    def begin(self) -> None:
        """Starts the trial that lasts."""
        environment = {"EPOCHS": "1000000", "EPOCH_SECONDS": "1", "STORE_EACH": "10"}
        lasting = counter(environment, resources=SMALL)
        checkpoints = {"store": store(self.namespace.cluster)}
        search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
        results = {"keep": KEPT_RESULTS}
        self.namespace.apply(experiment(LASTING, lasting, search=search, checkpoints=checkpoints, results=results))

    def replenish(self) -> None:
        """Deletes experiments that have ended or are stuck, and begins others in their place."""
        now = self.monotonic()
        found = {e["metadata"]["name"]: e for e in self.namespace.list(EXPERIMENTS)}
        self._look_for_deleted(found, now)
        for name, begun in list(self._going.items()):
            if name not in found:
                self.problems.append(f"{name} is gone, and nobody has deleted it")
                del self._going[name]
            elif self._has_ended(found[name], now - begun):
                self.namespace.kubectl("delete", EXPERIMENTS, name, "--wait=false")
                self._deleted[name] = now
                del self._going[name]
        while len(self._going) < AT_ONCE:
            made = self._make(self._begun)
            self.namespace.apply(made)
            self._going[made["metadata"]["name"]] = now
            self._begun += 1

    def find_idleness(self, minutes: float) -> list[str]:
        """Says what has not happened as often as it must within so many minutes: a soak may not pass without work."""
        least = LEAST_PER_MINUTE * minutes
        counts = {"experiments came to a good end": self.ended, "faults struck": self.faults.total()}
        return [
            f"{count} {what} within {minutes:g} minutes: at least {least:g} are to be expected"
            for what, count in counts.items()
            if count < least
        ]

    def _has_ended(self, experiment: Object, seconds: float) -> bool:
        """Whether an experiment is over, well or not, or so old that it never will be; keeps account of it."""
        name = experiment["metadata"]["name"]
        failed = condition(experiment, "Failed")
        if condition(experiment, "Complete").get("status") == "True":
            self._check(experiment)
        elif failed.get("status") == "True":
            self.problems.append(f"{name} has failed: {failed.get('reason')}: {failed.get('message')}")
        elif seconds > MOST_SECONDS:
            self.problems.append(f"{name} has not ended within {seconds:.0f} s: {experiment.get('status')}")
        else:
            return False
        return True

    def _look_for_deleted(self, found: Container[str], now: float) -> None:
        """Looks whether deleted experiments are gone."""
        for name, deleted in list(self._deleted.items()):
            if name not in found:
                del self._deleted[name]
            elif now - deleted > MOST_SECONDS:
                self.problems.append(f"{name} was deleted {now - deleted:.0f} s ago, and is not gone")
                del self._deleted[name]

    def strike(self) -> None:
        """Has a random fault befall a random pod that trains; nothing where there is none."""
        pods = [
            pod
            for pod in self.namespace.list("pods", "podtune.dev/trial")
            if pod["status"]["phase"] == "Running"
            and "deletionTimestamp" not in pod["metadata"]
            and pod["metadata"]["labels"]["podtune.dev/experiment"] != LASTING
        ]
        if not pods:
            return
        pod, name = self.random.choice(pods), self.random.choice(sorted(FAULTS))
        with contextlib.suppress(ClusterError):  # it has ended meanwhile
            FAULTS[name](self.namespace, pod)
            self.faults[name] += 1

    def _check(self, ended: Object) -> None:
        """Each trial has come to a good end, whatever befell its pods."""
        name = ended["metadata"]["name"]
        problems = len(self.problems)
        trials = self.namespace.list(TRIALS, f"podtune.dev/experiment={name}")
        if len(trials) != MAX_TRIALS:
            self.problems.append(f"{name} has {len(trials)} trials: it should have {MAX_TRIALS}")
        for trial in trials:
            if trial["status"]["state"] != "TERMINATED":
                self.problems.append(f"{trial['metadata']['name']} is {trial['status']['state']}: {trial['status']}")
        self.ended += len(self.problems) == problems

    def _make(self, number: int) -> Object:
        """An experiment of two minutes or so: three kinds take turns."""
        name = f"soak-{number}"
        spec: Object = {
            "checkpoints": {"store": store(self.namespace.cluster)},
            "search": {"algorithm": "random", "maxTrials": MAX_TRIALS, "seed": number},
            "maxConcurrentTrials": 3,
            "failures": {"maxFailures": 50, "backoff": {"initial": "1s", "max": "2s"}},
        }
        environment = {"EPOCHS": "40", "EPOCH_SECONDS": "0.5", "PRINT": "1"}
        kind = number % 3
        if kind == 1:
            spec["scheduler"] = {"asha": {"timeAttribute": "epoch", "maxTime": 40, "gracePeriod": 5}}
        elif kind == 2:
            spec["logs"] = {"keep": "1Mi"}
        return experiment(name, counter(environment, resources=SMALL), **spec)


def _kill(pod: Object, statuses: str, container: str) -> None:
    for status in pod["status"].get(statuses, ()):
        if status["name"] == container and "containerID" in status:
            kill_container(status)


def _delete(namespace: Kubernetes, pod: Object, *options: str) -> None:
    namespace.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false", *options)
