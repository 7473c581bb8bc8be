"""Who has written what of an object, as the API server keeps it in `metadata.managedFields`."""

from __future__ import annotations

from typing import Any


def find_managers_of_spec(manifest: dict[str, Any]) -> set[str]:
    """Names of all that have set a field of the spec."""
    return {
        entry["manager"]
        for entry in manifest["metadata"]["managedFields"]
        if any(field == "f:spec" for field in entry["fieldsV1"])
    }
