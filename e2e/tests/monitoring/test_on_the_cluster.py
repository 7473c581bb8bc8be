"""Prometheus scrapes the operator that is installed, while programs crash, a bucket is away, and then the operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.devcluster import Cluster
from e2e.disruptions import scaled_to_nothing
from e2e.experiments import counter, experiment, store
from e2e.install import OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.soak.operator_metrics import METRICS_PORT, METRICS_SERVER_NAME, metrics_token, read_authority
from e2e.tests.monitoring.dashboard_queries import list_unanswered
from e2e.tests.monitoring.prometheus_server import PrometheusServer, ScrapeTls, running_prometheus
from e2e.trials import EXPERIMENTS, let_go_on

pytestmark = [pytest.mark.alone, pytest.mark.long]

NO_GPU: Object = {"requests": {"cpu": "10m", "memory": "32Mi"}}
ABSENT = ("podtune_storage_jobs", "podtune_trials_not_storing{", "podtune_webhook", "podtune_experiment_problems")
"""What has no series while nothing is wrong, or without receivers."""
CRASHING: dict[str, Object] = {
    "PodtuneProgramsFailing": {"maxFailures": 0},
    "PodtuneTrialsFailing": {
        "maxFailures": 0,
        "maxInfrastructureFailures": 0,
        "rules": [{"exitCodes": [7], "action": "ExcludeNode"}],
    },
}
"""Alerts about trials whose programs crash, and what such an experiment says of failures: who is to blame for them."""


@pytest.fixture
def token(operator: Kubernetes) -> Iterator[str]:
    with metrics_token(operator) as token:
        yield token


@pytest.fixture
def server(operator: Kubernetes, token: str, tmp_path: Path) -> Iterator[PrometheusServer]:
    (tmp_path / "token").write_text(token)
    authority = tmp_path / "ca.crt"
    authority.write_text(read_authority(operator))
    tls = ScrapeTls(authority, METRICS_SERVER_NAME)
    address = operator.list("pods", OPERATOR_PODS)[0]["status"]["podIP"]
    with running_prometheus(tmp_path, [f"{address}:{METRICS_PORT}"], tmp_path / "token", tls) as server:
        yield server


def make_crashing(failures: Object) -> Object:
    """More trials than either alert waits for, each of which crashes at once and is not tried again."""
    environment = {"CRASH_AT": "1", "CRASH_ALWAYS": "", "CRASH_CODE": "7", "EPOCH_SECONDS": "0"}
    container = counter(environment, resources=NO_GPU)
    search = {"algorithm": "random", "maxTrials": 100, "seed": 1}
    return experiment("crashing", container, search=search, maxConcurrentTrials=8, failures=failures)


@pytest.mark.parametrize("alert", CRASHING)
def test_alerts_fire_where_programs_crash(namespace: Kubernetes, server: PrometheusServer, alert: str) -> None:
    # What has failed before the first scrape is no increase.
    eventually(lambda: server.query("podtune_attempts_total"), what="the operator is scraped")
    namespace.apply(make_crashing(CRASHING[alert]))
    firing = eventually(server.list_firing, lambda firing: alert in firing, what=f"{alert} fires")
    assert firing & set(CRASHING) == {alert}, "each is about what the other is not"
    # Waits, so that nothing of it is counted in the next test.
    namespace.kubectl("delete", EXPERIMENTS, "crashing")


def test_alerts_fire_where_the_bucket_is_away_and_where_the_operator_is(
    cluster: Cluster, operator: Kubernetes, namespace: Kubernetes, server: PrometheusServer
) -> None:
    container = counter({"EPOCHS": "200", "HOLD_AT": "200", "EPOCH_SECONDS": "0.5"}, resources=NO_GPU)
    namespace.apply(experiment("scraped", container, checkpoints={"store": store(cluster)}))
    running = f'podtune_trials{{namespace="{namespace.namespace}",experiment="scraped",state="running"}} == 2'
    eventually(lambda: server.query(running), what="both trials run, as Prometheus sees it")
    assert [target["lastError"] for target in server.list_targets()] == [""]
    eventually(lambda: list_unanswered(server, ABSENT), lambda empty: not empty, what="every query is answered")
    with scaled_to_nothing(Kubernetes(cluster, "s3"), "deployment/s3", "app=s3"):
        eventually(server.list_firing, lambda firing: "PodtuneStoreUnusable" in firing)
    eventually(server.list_firing, lambda firing: "PodtuneStoreUnusable" not in firing)
    with scaled_to_nothing(operator, f"deployment/{RELEASE}", OPERATOR_PODS):
        eventually(server.list_firing, lambda firing: "PodtuneDown" in firing)
    let_go_on(namespace)
    namespace.wait_for_condition(EXPERIMENTS, "scraped", "Complete")
