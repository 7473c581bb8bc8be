"""Work in the bucket without a running trial: done by storage pods, against a real S3 server."""

from __future__ import annotations

from e2e.cluster import Cluster
from e2e.experiments import counter, experiment, store
from e2e.kubernetes import Kubernetes, Object, eventually

EXPERIMENTS = "experiments.podtune.dev"
TRIALS = "trials.podtune.dev"


def job(namespace: Kubernetes, name: str, purpose: str) -> Object:
    jobs = (namespace.get(EXPERIMENTS, name)["status"].get("storage") or {}).get("jobs", [])
    return next((job for job in jobs if job["purpose"] == purpose), {})


def keys(cluster: Cluster, prefix: str) -> list[str]:
    return sorted(cluster.s3_client.list(prefix))


def key_of(cluster: Cluster, uri: str) -> str:
    return uri.removeprefix(f"s3://{cluster.s3.bucket}/")


def test_an_ended_experiment_leaves_as_many_checkpoints_as_are_to_be_kept(
    cluster: Cluster, namespace: Kubernetes
) -> None:
    namespace.apply(
        experiment(
            "tidy", counter({"EPOCHS": "4"}), checkpoints={"store": store(cluster), "keep": {"count": 1, "by": "best"}}
        )
    )
    namespace.wait_for_condition(EXPERIMENTS, "tidy", "Complete")
    namespace.wait_for_condition(EXPERIMENTS, "tidy", "BucketTidy")
    done = job(namespace, "tidy", "Tidy")
    assert done["state"] == "Done", done
    uid = namespace.get(EXPERIMENTS, "tidy")["metadata"]["uid"]
    manifests = [key for key in keys(cluster, f"e2e/{uid}/") if key.endswith("/manifest.json")]
    recorded = [c["uri"] for trial in namespace.list(TRIALS) for c in trial["status"]["checkpoints"]]
    assert manifests == sorted(f"{key_of(cluster, uri)}/manifest.json" for uri in recorded)
    assert len(manifests) == 2
    eventually(lambda: namespace.list("pods", "podtune.dev/storage"), lambda pods: not pods)
    eventually(lambda: namespace.list("configmaps", "podtune.dev/experiment=tidy"), lambda found: not found)
