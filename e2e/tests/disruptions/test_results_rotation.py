"""The authorities of the results server are replaced while trials train; nobody misses a result, or starts again."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment
from e2e.install import OPERATOR_NAMESPACE, OPERATOR_PODS, RELEASE
from e2e.kubernetes import Kubernetes, Object, eventually
from e2e.trials import EXPERIMENTS, TRIALS, let_go_on, trial_status
from podtune.results.tls.authorities import TURN, Authorities, make_authority

SECRET = f"{RELEASE}-results-tls"
LEFT = timedelta(seconds=90)
"""Until the turn ends: time for the operator to start anew, and for two trials to begin."""
ENDLESS = {"EPOCHS": "5000", "EPOCH_SECONDS": "0.5", "UNTIL_GO": "1"}
SMALL = {"requests": {"cpu": "10m", "memory": "32Mi"}}


def read(operator: Kubernetes) -> dict[str, str]:
    data = operator.get("secrets", SECRET).get("data") or {}
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


def write(operator: Kubernetes, authorities: Authorities) -> None:
    texts = {
        "ca.crt": authorities.trusted,
        "signing.crt": authorities.signing.certificate,
        "signing.key": authorities.signing.key,
        "following.crt": authorities.following.certificate,
        "following.key": authorities.following.key,
    }
    data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    operator.kubectl("patch", "secret", SECRET, "--type=merge", "-p", json.dumps({"data": data}))


def restart(operator: Kubernetes) -> None:
    """Has the operator start anew, as after an upgrade."""
    (before,) = operator.list("pods", OPERATOR_PODS)
    operator.kubectl("rollout", "restart", f"deployment/{RELEASE}")

    def leads(pods: list[Object]) -> bool:
        names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"].get("podtune.dev/leader")]
        return len(pods) == 1 and names == [pods[0]["metadata"]["name"]] != [before["metadata"]["name"]]

    eventually(lambda: operator.list("pods", OPERATOR_PODS), leads, what="the new operator leads")


def await_results(namespace: Kubernetes, name: str) -> None:
    """Waits until both trials have reported more than they had."""

    def count() -> list[int]:
        found = namespace.list(TRIALS, f"podtune.dev/experiment={name}")
        return [trial.get("status", {}).get("iteration", 0) for trial in found]

    before = max(count(), default=0)
    eventually(count, lambda now: len(now) == 2 and min(now) > before + 2, what=f"results after {before} come in")


def read_believed(namespace: Kubernetes, name: str) -> str:
    """Whom a pod of an experiment believes; one that has ended is gone."""
    pods = eventually(lambda: namespace.list("pods", f"podtune.dev/experiment={name}"))
    agent = pods[0]["spec"]["initContainers"][-1]
    return str(json.loads(agent["args"][1])["PODTUNE_RESULTS_AUTHORITIES"])


@pytest.fixture
def operator_at_the_end_of_a_turn(cluster: Cluster) -> tuple[Kubernetes, Authorities]:
    """The cluster's operator with authorities whose turn is over in a moment."""
    operator = Kubernetes(cluster, OPERATOR_NAMESPACE)
    begun = datetime.now(UTC) - TURN + LEFT
    authorities = Authorities(make_authority(begun), make_authority(begun))
    write(operator, authorities)
    restart(operator)
    return operator, authorities


@pytest.mark.alone
@pytest.mark.long
def test_trials_report_on_when_the_authority_that_signs_is_replaced(
    namespace: Kubernetes, operator_at_the_end_of_a_turn: tuple[Kubernetes, Authorities]
) -> None:
    operator, authorities = operator_at_the_end_of_a_turn
    namespace.apply(
        experiment("steady", counter(ENDLESS, resources=SMALL), search={"algorithm": "random", "maxTrials": 2})
    )
    await_results(namespace, "steady")
    assert read(operator)["signing.crt"] == authorities.signing.certificate, "the turn is not over yet"
    assert read_believed(namespace, "steady") == authorities.trusted

    eventually(
        lambda: read(operator)["signing.crt"],
        lambda signing: signing == authorities.following.certificate,
        what="the second authority signs",
    )
    await_results(namespace, "steady")
    restart(operator)  # all connect anew, and meet the new certificate
    await_results(namespace, "steady")

    one = {"algorithm": "random", "maxTrials": 1}
    namespace.apply(experiment("later", counter({"EPOCHS": "3"}, resources=SMALL), search=one))
    assert read_believed(namespace, "later") == read(operator)["ca.crt"] != authorities.trusted
    namespace.wait_for_condition(EXPERIMENTS, "later", "Complete")
    let_go_on(namespace, "podtune.dev/experiment=steady")
    namespace.wait_for_condition(EXPERIMENTS, "steady", "Complete")
    for name in ("steady-0", "steady-1"):
        status = trial_status(namespace, name)
        assert (status["attempt"], status.get("failures", 0)) == (1, 0)
