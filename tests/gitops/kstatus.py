"""What kstatus makes of an object of a custom resource: the library that Flux, Argo CD and Helm 4 wait by.

Its rules are those of `pkg/kstatus/status` in github.com/kubernetes-sigs/cli-utils, at 5895ad6. `generic.go` looks at
deletion, at the generation and at Reconciling and Stalled, in the order in which the conditions stand, and
`checkReadyCondition` in `status.go` at Ready. `tests/unit/integrations/tools` asks the library itself.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any


class Kstatus(StrEnum):
    """Its answers; NotFound and Unknown are not about an object that was read."""

    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"


def compute_kstatus(manifest: dict[str, Any]) -> Kstatus:
    """The status of an object, as the library computes it."""
    metadata, status = manifest["metadata"], manifest.get("status", {})
    conditions = status.get("conditions", ())
    if metadata.get("deletionTimestamp"):
        return Kstatus.TERMINATING
    if "generation" in metadata and status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return Kstatus.IN_PROGRESS
    for condition in conditions:
        match condition["type"], condition["status"]:
            case "Reconciling", "True":
                return Kstatus.IN_PROGRESS
            case "Stalled", "True":
                return Kstatus.FAILED
    ready = next((condition["status"] for condition in conditions if condition["type"] == "Ready"), "True")
    return Kstatus.CURRENT if ready == "True" else Kstatus.IN_PROGRESS
