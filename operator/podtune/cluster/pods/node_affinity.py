"""Keeps a pod off some nodes, besides all that its template says of nodes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from podtune.api.names import ANNOTATION_AVOIDED_NODES

Manifest = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def avoid(pod: Manifest, nodes: Sequence[str]) -> None:
    """Adds to a pod's manifest that it must not run on some nodes, and says so in an annotation.

    Nodes are told by their names, not by a label that may differ: a field selector takes one name each. A node has to
    fulfil all of one term, any one of them, so each term gets them all.
    """
    if not nodes:
        return
    pod["metadata"]["annotations"][ANNOTATION_AVOIDED_NODES] = ",".join(nodes)
    affinity = copy.deepcopy(pod["spec"].get("affinity") or {})
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {}
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    affinity["nodeAffinity"] = {**of_nodes, _REQUIRED: {**required, "nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = affinity
