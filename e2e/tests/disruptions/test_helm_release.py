"""A release of the charts, from `helm install` to `helm uninstall`, as the platform team has it on a working day.

The earlier release is its own chart with its own images. That all of its objects and messages are understood is
tests/unit/golden's to show.

The definitions are today's all the while: the earlier ones would drop newer fields of all else that the cluster has
stored, and would stay if the test were broken off. On an API server of its own, they are upgraded by
tests/component/api/test_definitions_chart.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.devcluster.building.images import s3_tag
from e2e.experiments import STORE_SECRET, counter, experiment, store
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE, ROOT
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.person import Person
from e2e.tests.conftest import make_namespace
from e2e.tests.disruptions import earlier_release
from e2e.trials import EXPERIMENTS, OF_TRIALS, TRIALS, let_go_on

OWN = "upgraded"
"""Name of the test's own release."""
NOW = ROOT / "charts" / "podtune"
SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}}
ENDLESS = {"EPOCHS": "5000", "EPOCH_SECONDS": "0.5", "STORE_EACH": "2", "UNTIL_GO": "1"}
OF_STEADY = f"podtune.dev/experiment=steady,{OF_TRIALS}"
"""Pods of its trials, and none that tidy its bucket up."""
LEFT = {
    f"lease.coordination.k8s.io/{OWN}-podtune-operator",
    f"secret/{OWN}-podtune-results-tls",
    f"configmap/{OWN}-podtune-operator-webhook-room",
    f"configmap/{OWN}-podtune-operator-traces",
}
"""For an operator that comes back: who led last, whom running agents believe, and how far others have heard."""
OF_EVERY_NAMESPACE = {"serviceaccount/default", "configmap/kube-root-ca.crt"}


def await_leader(operator: Kubernetes) -> None:
    eventually(
        lambda: operator.list("pods", OPERATOR_PODS),
        lambda pods: len(pods) == 1 and pods[0]["metadata"]["labels"].get("podtune.dev/leader") == "true",
        what="one operator leads",
    )


@pytest.fixture
def home(cluster: Cluster) -> Iterator[Kubernetes]:
    """A namespace for a release of the test's own, while the cluster's operator rests: it serves all namespaces."""
    operator = Kubernetes(cluster, OPERATOR_NAMESPACE)
    operator.kubectl("scale", f"deployment/{RELEASE}", "--replicas=0")
    eventually(lambda: not operator.list("pods", OPERATOR_PODS), what="the cluster's operator is gone")
    home = make_namespace(cluster)
    yield home
    cluster.run(["helm", "uninstall", OWN, "-n", home.namespace, "--ignore-not-found", "--wait"])
    cluster.kubectl("delete", "namespace", home.namespace, "--wait=false")
    operator.kubectl("scale", f"deployment/{RELEASE}", "--replicas=1")
    await_leader(operator)


def install(home: Kubernetes, chart: Path, users: Kubernetes | None, images: str = "dev", **settings: str) -> None:
    """Installs the test's release, which serves the users alone if there are any; waits until it leads."""
    values = {
        "image.repository": "localhost/podtune-operator",
        "image.tag": images,
        "agent.image.repository": "localhost/podtune-agent",
        "agent.image.tag": images,
        "nodeSelector.podtune\\.dev/role": "system",
        **({"watchNamespaces[0]": users.namespace} if users is not None else {}),
        **settings,
    }
    run_upgrade(home, chart, "--install", values)


def upgrade(home: Kubernetes, settings: dict[str, str]) -> None:
    """Upgrades the test's release to today's chart as our page does: it keeps its values, but for those that change."""
    run_upgrade(home, NOW, "--reset-then-reuse-values", {"image.tag": "dev", "agent.image.tag": "dev", **settings})


def run_upgrade(home: Kubernetes, chart: Path, option: str, values: dict[str, str]) -> None:
    sets = [f"--set={name}={value}" for name, value in values.items()]
    command = ["helm", "upgrade", OWN, str(chart), "-n", home.namespace, option, "--wait", "--timeout=200s"]
    home.cluster.run([*command, *sets], timeout=230)
    await_leader(home)


def choose_settings(home: Kubernetes) -> dict[str, str]:
    """What the earlier chart lacks: a store, and a receiver and a collector, which are not there."""
    image, _, tag = s3_tag().rpartition(":")
    return {
        "embeddedS3.enabled": "true",
        "embeddedS3.image.repository": image,
        "embeddedS3.image.tag": tag,
        "embeddedS3.secret": STORE_SECRET,
        "webhooks[0].name": "room",
        "webhooks[0].url": f"http://room.{home.namespace}.svc:8080/",
        "tracing.endpoint": f"http://collector.{home.namespace}.svc:4318",
    }


def list_training(namespace: Kubernetes) -> dict[str, tuple[str, int]]:
    """Of each trial the UID of its pod, and how often the pod's containers were restarted."""
    return {
        pod["metadata"]["labels"][OF_TRIALS]: (pod["metadata"]["uid"], count_restarts(pod))
        for pod in namespace.list("pods", OF_STEADY)
        if pod["status"]["phase"] == "Running"
    }


def count_restarts(pod: Object) -> int:
    status = pod["status"]
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return sum(container["restartCount"] for container in containers)


def await_progress(namespace: Kubernetes) -> None:
    """Waits until both trials have reported and stored a checkpoint, each more than it had."""

    def count() -> list[int]:
        statuses = [trial.get("status", {}) for trial in namespace.list(TRIALS, "podtune.dev/experiment=steady")]
        stored = [max((found["step"] for found in status.get("checkpoints", ())), default=0) for status in statuses]
        return [*(status.get("iteration", 0) for status in statuses), *stored]

    before = count()
    eventually(
        count,
        lambda now: len(now) == 4 and min(now) > max(before, default=0) + 2,
        what=f"results and checkpoints after those of {before} come in",
    )


def list_left(home: Kubernetes) -> set[str]:
    """What a release has left in the cluster: in its namespace, and elsewhere under its label."""

    def list_all(*words: str) -> set[str]:
        names = home.kubectl("api-resources", "--verbs=list", "-o", "name", *words).split()
        kinds = [name for name in names if not name.startswith(("events", "componentstatuses", "pods.metrics"))]
        return set(
            home.kubectl("get", ",".join(kinds), "-o", "name", "--ignore-not-found", *get_options(words)).split()
        )

    def get_options(words: tuple[str, ...]) -> tuple[str, ...]:
        return () if "--namespaced=true" in words else ("-A", "-l", f"app.kubernetes.io/instance={OWN}")

    return (list_all("--namespaced=true") | list_all()) - OF_EVERY_NAMESPACE - {f"secret/{STORE_SECRET}"}


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not earlier_release.is_in_history(), reason="this checkout lacks the commit of the earlier release")
def test_trials_train_on_through_upgrade_rollback_and_uninstall(
    cluster: Cluster, home: Kubernetes, namespace: Kubernetes, tmp_path: Path
) -> None:
    earlier_release.build_images(cluster, tmp_path)
    install(home, earlier_release.CHART, namespace, earlier_release.VERSION)
    namespace.apply(experiment("steady", counter(ENDLESS, resources=SMALL), checkpoints={"store": store(cluster)}))
    await_progress(namespace)
    training = list_training(namespace)
    assert len(training) == 2
    settings = choose_settings(home)

    upgrade(home, settings)
    await_progress(namespace)
    cluster.run(["helm", "rollback", OWN, "1", "-n", home.namespace, "--wait", "--timeout=200s"], timeout=230)
    await_leader(home)
    await_progress(namespace)
    upgrade(home, settings)
    await_progress(namespace)
    assert list_training(namespace) == training, "no pod was made anew, and no container started again"

    embedded = {"bucket": "podtune", "credentialsSecret": STORE_SECRET}
    embedded["endpoint"] = f"http://{OWN}-podtune-s3.{home.namespace}.svc:9000"
    namespace.apply(experiment("stored", counter(resources=SMALL), checkpoints={"store": embedded}))
    namespace.wait_for_condition(EXPERIMENTS, "stored", "Complete")
    for trial in namespace.list(TRIALS, "podtune.dev/experiment=stored"):
        assert all(found["uri"].startswith("s3://podtune/") for found in trial["status"]["checkpoints"])
        assert trial["status"]["checkpoints"]

    cluster.run(["helm", "uninstall", OWN, "-n", home.namespace, "--wait"])
    eventually(lambda: list_left(home), lambda left: left == LEFT, what=f"{sorted(LEFT)} are left, and nothing else")
    assert list_training(namespace) == training, "trials train on without an operator"
    install(home, NOW, namespace)
    await_progress(namespace)
    let_go_on(namespace, OF_STEADY)
    namespace.wait_for_condition(EXPERIMENTS, "steady", "Complete")
    for trial in namespace.list(TRIALS, "podtune.dev/experiment=steady"):
        status = trial["status"]
        assert (status["attempt"], status.get("failures", 0)) == (1, 0)


@pytest.mark.alone
@pytest.mark.long
def test_a_namespace_opts_in_and_is_served_without_a_restart(
    cluster: Cluster, home: Kubernetes, namespace: Kubernetes, tmp_path: Path
) -> None:
    """Its administrator has the role `admin` there, and nothing else."""
    install(home, NOW, None, namespaceOptIn="true")
    enable = [sys.executable, "-m", "podtune.cli.main", "enable"]
    early = make_namespace(cluster)
    try:
        cluster.run([*enable, early.namespace, "--operator-namespace", home.namespace])
        for served in (early, namespace):
            served.apply(experiment("counted", counter(resources=SMALL)))
        early.wait_for_condition(EXPERIMENTS, "counted", "Complete")
        namespace.wait_for_condition(EXPERIMENTS, "counted", "Stalled")
        said = namespace.get(EXPERIMENTS, "counted")["status"]["message"]
        command = f"kubectl podtune enable --operator-namespace {home.namespace} {namespace.namespace}"
        assert said.endswith(command)
        assert namespace.list(TRIALS) == []

        before = [count_restarts(pod) for pod in home.list("pods", OPERATOR_PODS)]
        asked = [*enable, namespace.namespace, "--operator-namespace", home.namespace, "--dry-run", "-o", "yaml"]
        manifest = cluster.run(asked).stdout
        administrator = Person(cluster, namespace, "admin", tmp_path)
        namespace.kubectl("apply", "-f", "-", f"--kubeconfig={administrator.kubeconfig}", stdin=manifest)
        namespace.wait_for_condition(EXPERIMENTS, "counted", "Complete")
        assert [count_restarts(pod) for pod in home.list("pods", OPERATOR_PODS)] == before == [0]
    finally:
        cluster.kubectl("delete", "namespace", early.namespace, "--wait=false")


def test_helm_test_runs_an_experiment_and_leaves_nothing(cluster: Cluster, operator: Kubernetes) -> None:
    tested = cluster.run(["helm", "test", RELEASE, "-n", OPERATOR_NAMESPACE, "--timeout=290s"]).stdout
    assert "Succeeded" in tested
    left = operator.kubectl("get", "pods,roles,rolebindings,serviceaccounts,experiments.podtune.dev", "-o", "name")
    assert [name for name in left.split() if name.endswith(f"/{RELEASE}-test")] == []
