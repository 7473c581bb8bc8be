"""What tests look at of a trial."""

from __future__ import annotations

import json

from e2e.cluster import Cluster
from e2e.kubernetes import Kubernetes, Object


def trial_status(namespace: Kubernetes, name: str) -> Object:
    status: Object = namespace.get("trials.podtune.dev", name).get("status", {})
    return status


def epochs_of_attempt(cluster: Cluster, checkpoint_uri: str) -> list[int]:
    """The epochs that the attempt of this checkpoint has reported, as its history in the bucket has them."""
    key = checkpoint_uri.removeprefix(f"s3://{cluster.s3.bucket}/").rpartition("/")[0]
    lines = [json.loads(line) for line in cluster.s3_client.get(f"{key}/results.jsonl").splitlines()]
    return [line["epoch"] for line in lines if "epoch" in line]
