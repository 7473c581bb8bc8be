"""Runs an Experiment of two small trials to the end, to see that an installation works: what `helm test` does.

python3 -m podtune.app.smoke_test --name podtune-test --namespace team-a --image podtune-agent:0.2.0

The trials run in the agent's image, which every trial needs anyway. An Experiment that succeeds is deleted; one that
does not stays for an hour, to be looked at.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.cli.client.api_client import Api, HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.errors import KubeconfigError
from podtune.kube import paths
from podtune.kube.errors import ApiError, ResourceNotFound
from podtune.kube.manifests import Manifest

SMOKE_PROGRAM = """\
from podtune import trial

x = trial.params()["x"]
for step in range(1, 4):
    trial.report({"value": 1 - (x - 0.3) ** 2 / step})
"""
"""What each trial runs: three results, at once."""
_TRIALS = 2
_USER = 10001
"""Nobody in the image, and not the agent's own user, which no trial may be."""
_SECONDS_KEPT = 3600
_INTERVAL = 1.0


class SmokeTestFailed(Exception):
    """The installation did not do what it should; the text says what it did."""


@dataclass(frozen=True, slots=True)
class SmokeTest:
    """What is run, and where.

    Attributes:
        name: Name of the Experiment.
        namespace: A namespace whose Experiments are served.
        image: An image with `podtune.trial`.
        pull_policy: When a node pulls it.
        pull_secrets: Secrets of the namespace to pull it with.
    """

    name: str
    namespace: str
    image: str
    pull_policy: str = "IfNotPresent"
    pull_secrets: Sequence[str] = ()

    @property
    def manifest(self) -> Manifest:
        """The Experiment, whose pods are admitted where Pod Security's level "restricted" is enforced."""
        container = {
            "name": "trial",
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "command": ["python3", "-c", SMOKE_PROGRAM],
            "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
        }
        pod = {
            "imagePullSecrets": [{"name": secret} for secret in self.pull_secrets],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        }
        return {
            "apiVersion": API_VERSION,
            "kind": EXPERIMENT_KIND,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "objective": {"metric": "value", "mode": "max"},
                "parameters": [{"name": "x", "float": {"min": 0, "max": 1}}],
                "search": {"algorithm": "random", "maxTrials": _TRIALS, "seed": 1},
                "maxConcurrentTrials": _TRIALS,
                "ttlSecondsAfterFinished": _SECONDS_KEPT,
                "trialTemplate": {"spec": pod},
            },
        }


def run_smoke_test(
    test: SmokeTest,
    api: Api,
    timeout: float,
    *,
    say: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Creates the Experiment, waits until it is complete, and deletes it.

    Args:
        test: What to run.
        api: The cluster.
        timeout: Seconds that it may take, with the end of one that was left from before.
        say: Takes what is worth telling.
        clock: Tells the time in seconds.
        sleep: Waits so many seconds.

    Raises:
        SmokeTestFailed: It has failed, is not complete in time, or has not the best trial that it should have.
        ApiError: The API server refuses.
    """
    end = clock() + timeout

    def is_time_left() -> bool:
        return clock() < end

    _remove_former(test, api, is_time_left, sleep)
    api.create(paths.experiments(test.namespace), test.manifest)
    say(f"created Experiment {test.namespace}/{test.name}")
    experiment = _await_end(test, api, say, is_time_left, sleep)
    status = experiment.get("status") or {}
    if "Complete" not in _list_conditions(status):
        raise SmokeTestFailed(
            "\n".join([f"Experiment {test.name} is not complete", *_list_facts(experiment, api, test)])
        )
    if (status.get("trials") or {}).get("terminated") != _TRIALS or "best" not in status:
        raise SmokeTestFailed("\n".join(["it is complete without its best trial", *_list_facts(experiment, api, test)]))
    say(f"best: {status['best']['trial']} with {status['best']['value']}")
    api.delete(paths.experiment(test.namespace, test.name), experiment["metadata"]["uid"])


def _await_end(
    test: SmokeTest,
    api: Api,
    say: Callable[[str], None],
    is_time_left: Callable[[], bool],
    sleep: Callable[[float], None],
) -> Manifest:
    """The Experiment when it has ended, or when there is no time left; says its states on the way."""
    before = ""
    while True:
        experiment = _read(api, test)
        if experiment is None:
            raise SmokeTestFailed(f"somebody has deleted Experiment {test.namespace}/{test.name}")
        status = experiment.get("status") or {}
        told = f"{status.get('state', '')}: {status.get('message', '')}"
        if status.get("state") and told != before:
            say(told)
            before = told
        if not is_time_left() or {"Complete", "Failed"} & _list_conditions(status):
            return experiment
        sleep(_INTERVAL)


def _list_conditions(status: Manifest) -> set[str]:
    """The types of the conditions that hold."""
    return {entry["type"] for entry in status.get("conditions") or () if entry["status"] == "True"}


def _read(api: Api, test: SmokeTest) -> Manifest | None:
    """The Experiment; None where there is none."""
    try:
        return api.get(paths.experiment(test.namespace, test.name))
    except ResourceNotFound:
        return None


def _remove_former(test: SmokeTest, api: Api, is_time_left: Callable[[], bool], sleep: Callable[[float], None]) -> None:
    """Deletes what a test before this one has left."""
    while (former := _read(api, test)) is not None:
        if not is_time_left():
            raise SmokeTestFailed(f"Experiment {test.name} of an earlier test does not go away; delete it")
        if "deletionTimestamp" not in former["metadata"]:
            api.delete(paths.experiment(test.namespace, test.name), former["metadata"]["uid"])
        sleep(_INTERVAL)


def _list_facts(experiment: Manifest, api: Api, test: SmokeTest) -> Iterator[str]:
    """What there is to know of an Experiment that did not succeed."""
    status = experiment.get("status") or {}
    if not status.get("state"):
        yield f"no operator has looked at it: is one up that serves namespace {test.namespace}?"
    yield from (f"{c['type']}={c['status']}: {c.get('message', '')}" for c in status.get("conditions") or ())
    for trial in api.list_all(paths.trials(test.namespace), {"labelSelector": f"podtune.dev/experiment={test.name}"}):
        its = trial.get("status") or {}
        yield f"{trial['metadata']['name']}: {its.get('state', '')} {its.get('reason', '')} {its.get('message', '')}"
    yield f"look at it: kubectl podtune describe {test.name} -n {test.namespace}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs an Experiment of two small trials to the end.")
    parser.add_argument("--name", required=True, help="name of the Experiment")
    parser.add_argument("--namespace", required=True, help="a namespace whose Experiments are served")
    parser.add_argument("--image", required=True, help="the agent's image")
    parser.add_argument("--pull-policy", default="IfNotPresent", help="when a node pulls it")
    parser.add_argument("--pull-secret", action="append", default=[], help="a Secret to pull it with; any number")
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds that it may take")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Does it; returns the exit code."""
    options = _parse(arguments)
    test = SmokeTest(options.name, options.namespace, options.image, options.pull_policy, tuple(options.pull_secret))
    try:
        run_smoke_test(test, HttpApi(connect(namespace=test.namespace)), options.timeout)
    except (SmokeTestFailed, ApiError, KubeconfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
