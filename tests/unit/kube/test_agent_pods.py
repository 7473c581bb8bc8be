"""What the pods of the agent's image have in common."""

from typing import Any

from podtune.kube.agent_pods import share_node

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_what_the_template_says_of_nodes_stays() -> None:
    own = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "zone"}
    affinity = {"nodeAffinity": {"required": 1}, "podAffinity": {REQUIRED: [own], "preferred": 2}}
    pod: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": {"affinity": affinity}}
    share_node(pod, "c" * 100)
    terms = pod["spec"]["affinity"]["podAffinity"][REQUIRED]
    assert terms[0] == own
    assert len(terms[1]["labelSelector"]["matchLabels"]["podtune.dev/store-claim"]) == 32
    assert pod["spec"]["affinity"]["podAffinity"]["preferred"] == 2
    assert pod["spec"]["affinity"]["nodeAffinity"] == {"required": 1}
    assert affinity["podAffinity"] == {REQUIRED: [own], "preferred": 2}, "the template's own is not changed"
    assert pod["metadata"]["labels"]["a"] == "b"
