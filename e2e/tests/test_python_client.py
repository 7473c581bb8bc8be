"""An experiment from Python, from its creation to its checkpoint on this machine."""

from __future__ import annotations

from pathlib import Path

from e2e.devcluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes
from podtune.client import Client, Experiment, StoreOptions


def test_an_experiment_is_created_followed_and_its_results_and_checkpoint_taken_home(
    cluster: Cluster, namespace: Kubernetes, tmp_path: Path
) -> None:
    client = Client(
        kubeconfig=cluster.kubeconfig,
        namespace=namespace.namespace,
        store=StoreOptions(endpoint=cluster.s3.endpoint),
    )
    made = experiment(
        "stored",
        counter({"EPOCHS": "5", "PRINT": "1"}),
        checkpoints={"store": store(cluster), "keep": {"count": 2}},
        search={"algorithm": "random", "maxTrials": 1},
        logs={"keep": "1Mi"},
    )
    stored = client.create(Experiment.from_dict(made))
    states = [snapshot.state for snapshot in stored.watch(show=False)]
    assert states[-1] == "Complete"
    assert stored.wait(timeout="1m").counts.terminated == 1
    (trial,) = stored.trials
    assert stored.best.trial == trial.name == "stored-0"
    assert stored.best.parameters == trial.parameters
    assert [point.iteration for point in trial.curve] == [1, 2, 3, 4, 5]
    frame = stored.results_df(source="store")
    assert frame["epoch"].tolist() == [1, 2, 3, 4, 5]
    assert frame["value"].max() == stored.best.value
    assert trial.logs(stored=True).splitlines()[1:] == [f"epoch {epoch}" for epoch in range(1, 6)]
    assert [checkpoint.step for checkpoint in trial.checkpoints] == [4, 5]
    for checkpoint in trial.checkpoints:
        key = checkpoint.uri.removeprefix(f"s3://{cluster.s3.bucket}/")
        assert cluster.s3_client.get(f"{key}/manifest.json")
    latest = trial.checkpoint
    assert latest is not None
    assert any(latest.download(tmp_path / "latest").iterdir())
    assert client.get("stored").state == "Complete"
