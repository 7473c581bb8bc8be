"""Trials that are runs of a tracking server, too: one each, whatever attempts it takes."""

from __future__ import annotations

import base64
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from e2e.devcluster import Cluster, kind
from e2e.devcluster.layout import NODES
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, eventually
from e2e.trackers.mlflow_server import running_mlflow_server
from e2e.trials import EXPERIMENTS, TRIALS, read_stored_results, touch, trial_status
from e2e.unchanged.table import UNCHANGED_SCRIPTS, make_config_map
from podtune.agent.trackers.mlflow_client import FoundRun, MlflowClient
from tests.unit.agent.trackers.mlflow_receiver import MlflowReceiver
from tests.unit.storage.event_files.reading import read_events

DASHBOARD = "https://podtune.example.com"
TOKEN = "e2e"
pytestmark = pytest.mark.skipif(kind.is_used(), reason="kind's pods don't reach servers on this machine")


@dataclass(frozen=True)
class Tracker:
    """A tracking server.

    Attributes:
        authorizations: How requests to it were signed; None where it does not look.
        go_down: Has it answer nobody.
        come_up: Has it answer again, with all that it had.
    """

    url: str
    authorizations: set[str] | None
    go_down: Callable[[], None]
    come_up: Callable[[], None]

    def describe(self) -> dict[str, Any]:
        """It, as `spec.trackers`."""
        return {"dashboard": DASHBOARD, "mlflow": {"uri": self.url, "credentialsSecret": "mlflow"}}


@pytest.fixture(scope="module")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracker]:
    """MLflow's own server, which takes long to start."""
    with running_mlflow_server(NODES[0].address, tmp_path_factory.mktemp("mlflow")) as server:
        yield Tracker(server.url, None, server.hang, server.go_on)


@pytest.fixture(params=["receiver", pytest.param("mlflow", marks=pytest.mark.long)])
def tracker(request: pytest.FixtureRequest, namespace: Kubernetes) -> Iterator[Tracker]:
    """A tracking server that pods reach, with its token in the namespace."""
    data = {"MLFLOW_TRACKING_TOKEN": base64.b64encode(TOKEN.encode()).decode()}
    namespace.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mlflow"}, "data": data})
    if request.param == "mlflow":
        yield request.getfixturevalue("mlflow_server")
    else:
        receiver = MlflowReceiver(NODES[0].address)
        turn = partial(setattr, receiver, "is_down")
        yield Tracker(receiver.uri, receiver.authorizations, partial(turn, True), partial(turn, False))
        receiver.close()


@pytest.fixture
def client(tracker: Tracker) -> Iterator[MlflowClient]:
    made = MlflowClient(tracker.url, lambda: {"MLFLOW_TRACKING_TOKEN": TOKEN}, timeout=60.0)
    yield made
    made.close()


def list_runs(client: MlflowClient, namespace: Kubernetes, name: str) -> list[FoundRun]:
    """All runs of an Experiment, which has the name that its experiment there has."""
    tags = {"podtune.dev/namespace": namespace.namespace, "podtune.dev/experiment": name}
    return list(client.search_runs(client.find_or_create_experiment(name), tags, most=10))


def fetch_values(client: MlflowClient, run: FoundRun, metric: str) -> dict[int, float]:
    """The history of a metric, by step."""
    history = client.request("GET", "metrics/get-history", {"run_id": run.run_id, "metric_key": metric})
    return {int(entry["step"]): float(entry["value"]) for entry in history.get("metrics", [])}


def show(runs: list[FoundRun]) -> dict[str, tuple[str, str, bool]]:
    """The status of each trial's run, the attempt that has logged last, and whether it is marked as the best."""
    return {
        run.tags["podtune.dev/trial"]: (run.status, run.tags["podtune.dev/attempt"], "podtune.dev/best" in run.tags)
        for run in runs
    }


def test_a_trial_is_one_run_though_an_attempt_of_it_fails(
    cluster: Cluster, namespace: Kubernetes, tracker: Tracker, client: MlflowClient
) -> None:
    container = counter({"CRASH_AT": "2", "CRASH_TRIAL": "0"}, resources={"requests": {"cpu": "10m"}})
    checkpoints = {"store": store(cluster, prefix=namespace.namespace)}
    trackers = {**tracker.describe(), "tensorBoard": {}}
    told = experiment("counted", container, checkpoints=checkpoints, trackers=trackers)
    (fluent,) = (script for script in UNCHANGED_SCRIPTS if script.name == "mlflow-fluent")
    fails_once = 'python3 mlflow_fluent_requests.py "$0" && test "$PODTUNE_TRIAL_INDEX-$PODTUNE_ATTEMPT" != 0-1'
    script = replace(fluent, command=["sh", "-c", fails_once, "$(PODTUNE_PARAM_alpha)"]).build_experiment()
    script["spec"]["trackers"] = tracker.describe()
    namespace.apply(make_config_map(), told, script)
    for name in ("counted", "mlflow-fluent"):
        namespace.wait_for_condition(EXPERIMENTS, name, "Complete")
    assert {trial["metadata"]["name"]: trial["status"]["attempt"] for trial in namespace.list(TRIALS)} == {
        "counted-0": 2,
        "counted-1": 1,
        "mlflow-fluent-0": 2,
        "mlflow-fluent-1": 1,
    }
    check_counted(client, namespace)
    check_event_files(cluster, namespace)
    check_script(client, namespace)
    assert tracker.authorizations in (None, {f"Bearer {TOKEN}"})


def check_counted(client: MlflowClient, namespace: Kubernetes) -> None:
    """The retried trial went on from its checkpoint, and so did its run."""
    best = namespace.get(EXPERIMENTS, "counted")["status"]["best"]["trial"]
    wanted = {f"counted-{index}": ("FINISHED", str(2 - index), f"counted-{index}" == best) for index in (0, 1)}
    eventually(lambda: show(list_runs(client, namespace, "counted")), wanted.__eq__, what="the runs are up to date")
    runs = list_runs(client, namespace, "counted")
    assert len(runs) == 2
    for run in runs:
        trial = namespace.get(TRIALS, run.tags["podtune.dev/trial"])
        base = float(run.params["base"])
        assert base == float(trial["spec"]["parameters"]["base"])
        values = {epoch: base * (1 - 1 / (epoch + 1)) for epoch in (1, 2, 3)}
        assert fetch_values(client, run, "value") == pytest.approx(values)
        assert run.end_ms
        page = f"{DASHBOARD}/experiments/{namespace.namespace}/counted/trials/{trial['metadata']['name']}"
        assert run.tags["podtune.dev/dashboard"] == page
        assert run.tags["podtune.dev/trial-uid"] == trial["metadata"]["uid"]
        assert run.tags["mlflow.runName"] == trial["metadata"]["name"]


def check_event_files(cluster: Cluster, namespace: Kubernetes) -> None:
    """Beside the checkpoints there is a run for each trial: of the retried one, nothing is there twice."""
    uid = namespace.get(EXPERIMENTS, "counted")["metadata"]["uid"]
    top = f"{namespace.namespace}/{uid}/_tensorboard/"
    files = {key.removeprefix(top): cluster.s3_client.get(key) for key in cluster.s3_client.list(top)}
    assert Counter(name.partition("/")[0] for name in files if "/" in name) == {"counted-0": 2, "counted-1": 1}
    (table,) = (content for name, content in files.items() if "/" not in name)
    assert all(word in table for word in (b"_hparams_/experiment", b"base", b"value"))
    for trial in ("counted-0", "counted-1"):
        base = float(namespace.get(TRIALS, trial)["spec"]["parameters"]["base"])
        shown: dict[int, float] = {}
        contents = [files[name] for name in sorted(files) if name.startswith(f"{trial}/")]
        for event in itertools.chain.from_iterable(map(read_events, contents)):
            if event.restarts:
                shown = {step: value for step, value in shown.items() if step < event.step}
            if "value" in event.scalars:
                assert event.step not in shown
                shown[event.step] = event.scalars["value"]
        assert shown == pytest.approx({epoch: base * (1 - 1 / (epoch + 1)) for epoch in (1, 2, 3)})
        assert b"session_end_info" in contents[-1]


def check_script(client: MlflowClient, namespace: Kubernetes) -> None:
    """What a script logs to the agent is passed on; a retried one that took no checkpoint begins again."""
    wanted = {"mlflow-fluent-0": ("FINISHED", "2", True), "mlflow-fluent-1": ("FINISHED", "1", False)}
    eventually(lambda: show(list_runs(client, namespace, "mlflow-fluent")), wanted.__eq__, what="the runs are told")
    runs = list_runs(client, namespace, "mlflow-fluent")
    assert len(runs) == 2
    for run in runs:
        alpha = float(run.params["alpha"])
        assert fetch_values(client, run, "rmse") == pytest.approx({step: alpha + 1 / step for step in range(1, 5)})
        assert fetch_values(client, run, "step") == {1: 1, 2: 2, 3: 3, 4: 4}


NO_GPU = {"requests": {"cpu": "10m", "memory": "32Mi"}}
STOP = '{"spec": {"desiredState": "Stopped"}}'


@pytest.mark.long
def test_a_run_ends_as_its_trial_does(
    cluster: Cluster, namespace: Kubernetes, tracker: Tracker, client: MlflowClient
) -> None:
    container = counter({"CRASH_AT": "2", "CRASH_TRIAL": "0", "CRASH_ALWAYS": "", "HOLD_AT": "3"}, resources=NO_GPU)
    checkpoints = {"store": store(cluster, prefix=namespace.namespace)}
    trackers = {**tracker.describe(), "tensorBoard": {}}
    ends = experiment(
        "ends",
        container,
        checkpoints=checkpoints,
        trackers=trackers,
        search={"algorithm": "random", "maxTrials": 3, "seed": 1},
        maxConcurrentTrials=3,
    )
    namespace.apply(ends)
    for trial in ("ends-1", "ends-2"):
        eventually(partial(trial_status, namespace, trial), lambda status: status.get("iteration") == 2, what=trial)
    namespace.kubectl("patch", TRIALS, "ends-1", "--type=merge", "-p", STOP)
    eventually(partial(trial_status, namespace, "ends-1"), lambda status: status.get("state") == "TERMINATED")
    (pod,) = namespace.list("pods", "podtune.dev/trial=ends-2")
    touch(namespace, pod["metadata"]["name"], "go")
    namespace.wait_for_condition(EXPERIMENTS, "ends", "Complete")
    wanted = {"ends-0": "FAILED", "ends-1": "KILLED", "ends-2": "FINISHED"}
    eventually(
        lambda: {trial: status for trial, (status, *_) in show(list_runs(client, namespace, "ends")).items()},
        wanted.__eq__,
        what="the runs are up to date",
    )
    assert all(run.end_ms for run in list_runs(client, namespace, "ends"))
    top = f"{namespace.namespace}/{namespace.get(EXPERIMENTS, 'ends')['metadata']['uid']}/_tensorboard/"
    contents = {key.removeprefix(top): cluster.s3_client.get(key) for key in cluster.s3_client.list(top)}
    ended = {name for name, content in contents.items() if b"session_end_info" in content}
    assert Counter(name.partition("/")[0] for name in ended) == {"ends-0": 1, "ends-1": 1, "ends-2": 1}
    assert [name for name in ended if name.endswith(".failed")] == [max(n for n in contents if n.startswith("ends-0/"))]


@pytest.mark.long
def test_a_tracker_that_is_away_for_a_while_misses_nothing_and_holds_no_trial_up(
    cluster: Cluster, namespace: Kubernetes, tracker: Tracker, client: MlflowClient
) -> None:
    container = counter({"EPOCHS": "6", "HOLD_EACH": ""}, resources=NO_GPU)
    checkpoints = {"store": store(cluster, prefix=namespace.namespace)}
    search = {"algorithm": "random", "maxTrials": 1, "seed": 1}
    namespace.apply(experiment("told", container, checkpoints=checkpoints, trackers=tracker.describe(), search=search))

    def list_steps() -> list[int]:
        runs = list_runs(client, namespace, "told")
        return sorted(step for run in runs for step in fetch_values(client, run, "value"))

    eventually(list_steps, [1].__eq__, what="the first result is told")
    tracker.go_down()
    (pod,) = namespace.list("pods", "podtune.dev/trial=told-0")
    for epoch in range(2, 6):
        touch(namespace, pod["metadata"]["name"], f"go-{epoch}")
    eventually(
        partial(trial_status, namespace, "told-0"),
        lambda status: status.get("iteration") == 5 == status.get("checkpoint", {}).get("step"),
        what="it goes on, and its last checkpoint is stored",
    )
    tracker.come_up()
    eventually(list_steps, [1, 2, 3, 4, 5].__eq__, what="what was missed is told")
    touch(namespace, pod["metadata"]["name"], "go-6")
    namespace.wait_for_condition(EXPERIMENTS, "told", "Complete")
    eventually(
        lambda: show(list_runs(client, namespace, "told")), {"told-0": ("FINISHED", "1", True)}.__eq__, what="its end"
    )
    assert list_steps() == [1, 2, 3, 4, 5, 6]


WANDB_VARIABLES = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_RUN_GROUP", "WANDB_NAME")
LOGS_ITS_RUN = f"""
import os, sys
from podtune import trial
trial.report({{"value": 1.0, **{{name: os.environ.get(name, "") for name in {WANDB_VARIABLES}}}}})
sys.exit(os.environ["PODTUNE_ATTEMPT"] == "1")
"""
"""What a client of Weights & Biases would go by: there is no server of it to be had."""


@pytest.mark.long
def test_all_attempts_of_a_trial_are_one_run_of_weights_and_biases(cluster: Cluster, namespace: Kubernetes) -> None:
    container = counter(resources=NO_GPU, command=["python3", "-c", LOGS_ITS_RUN])
    checkpoints = {"store": store(cluster, prefix=namespace.namespace)}
    namespace.apply(experiment("logged", container, checkpoints=checkpoints, trackers={"wandb": {}}))
    namespace.wait_for_condition(EXPERIMENTS, "logged", "Complete")
    prefix = f"{namespace.namespace}/{namespace.get(EXPERIMENTS, 'logged')['metadata']['uid']}/"
    for trial in namespace.list(TRIALS):
        name, uid = trial["metadata"]["name"], trial["metadata"]["uid"]
        found = read_stored_results(cluster, prefix, name)
        assert len({result.attempt for result in found}) == len(found) == 2
        told = {tuple(result.result.metrics[variable] for variable in WANDB_VARIABLES) for result in found}
        assert told == {(uid.replace("-", ""), "allow", "logged", name)}
