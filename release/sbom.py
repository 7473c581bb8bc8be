"""A bill of materials for each image, in CycloneDX's JSON: what it holds, by whom it is known, under which licence."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from release.shipped_packages import Package

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def build_sbom(
    name: str, version: str, packages: Iterable[Package], licences: Mapping[str, str], *, epoch: int, kind: str
) -> dict[str, Any]:
    """Describes what an image holds.

    Args:
        name: Of the image, such as `podtune-agent`.
        version: Of Podtune.
        packages: The Python packages in it.
        licences: Their licences, as SPDX expressions, by name.
        epoch: The time that it is made for, in seconds since 1970.
        kind: `container` for an image, `application` for what is installed by pip.
    """
    listed = sorted(packages)
    own = f"pkg:oci/{name}?tag={version}" if kind == "container" else f"pkg:pypi/podtune@{version}"
    content: dict[str, Any] = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": kind,
                "bom-ref": own,
                "name": name,
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": own,
            },
        },
        "components": [_describe(package, licences[package.name]) for package in listed],
        "dependencies": [{"ref": own, "dependsOn": [package.url for package in listed]}],
        # Of the packages of the base image it knows nothing.
        "compositions": [{"aggregate": "incomplete", "assemblies": [own]}],
    }
    # Made from what it says, the number is the same where that is.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {"$schema": _SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}"}
    return {**head, "version": 1, **content}


def _describe(package: Package, licence: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "licenses": [{"expression": licence}],
        "purl": package.url,
    }
