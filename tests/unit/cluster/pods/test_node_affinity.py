"""Pods are kept off nodes besides what their template says of nodes."""

from __future__ import annotations

from typing import Any

from podtune.cluster.pods.manifest import avoid_nodes

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {}}, "spec": spec}


def terms(body: dict[str, Any]) -> Any:
    return body["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def off(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]}


def test_a_pod_that_avoids_nothing_stays_as_it_is() -> None:
    body = pod()
    avoid_nodes(body, ())
    assert body == pod()


def test_a_pod_without_affinity_may_run_on_all_other_nodes() -> None:
    body = pod()
    avoid_nodes(body, ("n1", "n2"))
    assert terms(body) == [{"matchFields": [off("n1"), off("n2")]}]
    assert body["metadata"]["annotations"] == {"podtune.dev/avoided-nodes": "n1,n2"}


def test_each_term_of_the_template_keeps_off_too_and_the_template_stays_as_it_was() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    named = {"matchFields": [off("n9")]}
    preferred = [{"weight": 1, "preference": zone}]
    template = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [zone, named]},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        "podAntiAffinity": {"kept": True},
    }
    body = pod(affinity=template)
    avoid_nodes(body, ("n1",))
    assert terms(body) == [{**zone, "matchFields": [off("n1")]}, {"matchFields": [off("n9"), off("n1")]}]
    assert body["spec"]["affinity"]["podAntiAffinity"] == {"kept": True}
    assert body["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert template["nodeAffinity"][REQUIRED] == {"nodeSelectorTerms": [zone, named]}
