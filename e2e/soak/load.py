"""Experiments that come and go, and what befalls their pods."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
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
SMALL: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}}
FAULTS: dict[str, Callable[[Kubernetes, Object], None]] = {
    "evicted": lambda namespace, pod: evict(namespace, pod["metadata"]["name"]),
    "deleted": lambda namespace, pod: _delete(namespace, pod, "--grace-period=5"),
    "lost": lambda namespace, pod: _delete(namespace, pod, "--grace-period=0", "--force"),
    "killed": lambda _, pod: _kill(pod, "containerStatuses", "trial"),
    "agent killed": lambda _, pod: _kill(pod, "initContainerStatuses", "podtune-agent"),
}
"""What befalls a pod, by its name."""


@dataclass(slots=True)
class Load:
    """Keeps a few experiments at work, each of another kind than the one before it.

    Attributes:
        namespace: Where they are.
        random: Chooses pods and faults.
        faults: How often each fault has struck.
        ended: How many experiments have come to their end.
        problems: Experiments that came to another end than they should.
    """

    namespace: Kubernetes
    random: Random
    faults: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    problems: list[str] = field(default_factory=list)
    _begun: int = 0

    def begin(self) -> None:
        """Starts the trial that lasts."""
        environment = {"EPOCHS": "1000000", "EPOCH_SECONDS": "1", "STORE_EACH": "10"}
        lasting = counter(environment, resources=SMALL)
        checkpoints = {"store": store(self.namespace.cluster)}
        search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
        self.namespace.apply(experiment(LASTING, lasting, search=search, checkpoints=checkpoints))

    def replenish(self) -> None:
        """Deletes experiments that have ended, and begins others in their place."""
        found = [e for e in self.namespace.list(EXPERIMENTS) if e["metadata"]["name"] != LASTING]
        for ended in found:
            if condition(ended, "Complete").get("status") == "True":
                self._check(ended)
                self.namespace.kubectl("delete", EXPERIMENTS, ended["metadata"]["name"], "--wait=false")
        going = [e for e in found if condition(e, "Complete").get("status") != "True"]
        for _ in range(AT_ONCE - len(going)):
            self.namespace.apply(self._make(self._begun))
            self._begun += 1

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
        self.ended += 1
        name = ended["metadata"]["name"]
        for trial in self.namespace.list(TRIALS, f"podtune.dev/experiment={name}"):
            if trial["status"]["state"] != "TERMINATED":
                self.problems.append(f"{trial['metadata']['name']} is {trial['status']['state']}: {trial['status']}")

    def _make(self, number: int) -> Object:
        """An experiment of two minutes or so: three kinds take turns."""
        name = f"soak-{number}"
        spec: Object = {
            "checkpoints": {"store": store(self.namespace.cluster)},
            "search": {"algorithm": "random", "maxTrials": 8, "seed": number},
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
