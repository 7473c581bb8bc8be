"""Pods that serve one trial after the other, as the API server has them."""

from __future__ import annotations

import json
from typing import Any

from podtune.api.resources.trial import TrialSpec
from podtune.cluster import decoders
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.runner.actions import CreatePod
from tests.unit.cluster.objects import experiment_record

Manifest = dict[str, Any]
AGENT = AgentSettings("registry/agent:1", "IfNotPresent", "http://podtune-results:8080")
TEMPLATE = {"reuse": True, "spec": {"containers": [{"name": "main", "image": "i"}]}}


def manifest(template_hash: str = "a1") -> Manifest:
    spec = TrialSpec(experiment="digits", index=3, parameters={"lr": "0.01", "units": "32"})
    action = CreatePod("digits-3", "t-3", 2, spec, restore=(), iteration=0, template_hash=template_hash)
    body = make_pod(experiment_record(trialTemplate=TEMPLATE), action, AGENT)
    body["metadata"] |= {"namespace": "team", "uid": "p-1", "resourceVersion": "7"}
    return body


def test_it_outlives_the_trial_that_it_was_made_for() -> None:
    metadata = manifest()["metadata"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Experiment", "digits")
    assert "podtune.dev/trial" not in metadata["labels"], "or it were deleted with the trial's finished pods"


def test_it_is_read_as_that_trials_first() -> None:
    body = manifest()
    pod = decoders.decode_pod(body)
    assert (pod.trial, pod.trial_uid, pod.attempt, pod.template_hash) == ("digits-3", "t-3", 2, "a1")
    assert decoders.owner_of_pod(body) == body["metadata"]["ownerReferences"][0]["uid"]


def test_agent_and_program_know_of_it() -> None:
    spec = manifest()["spec"]
    agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
    assert json.loads(agent["args"][1])["PODTUNE_REUSE"] == "true"
    program = {entry["name"]: entry["value"] for entry in spec["containers"][0]["env"]}
    assert program["PODTUNE_REUSE"] == "true"


def test_only_the_agent_sees_where_it_keeps_what_the_pod_is_to_do() -> None:
    spec = manifest()["spec"]
    assert {"name": "podtune-state", "emptyDir": {}} in spec["volumes"]
    containers = [*spec["initContainers"], *spec["containers"]]
    mounts = {c["name"]: m["mountPath"] for c in containers for m in c["volumeMounts"] if m["name"] == "podtune-state"}
    agent = next(c for c in spec["initContainers"] if c["name"] == "podtune-agent")
    assert mounts == {"podtune-agent": json.loads(agent["args"][1])["PODTUNE_STATE"]}


def test_a_pod_of_another_kind_knows_nothing_of_it() -> None:
    body = manifest(template_hash="")
    assert "PODTUNE_REUSE" not in json.dumps(body)
    assert "podtune-state" not in json.dumps(body)
    assert decoders.decode_pod(body).template_hash == ""
    assert decoders.owner_of_pod(body) == "t-3"
