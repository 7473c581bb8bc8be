"""A bill of materials for each image, in CycloneDX's JSON: what it is made from and holds, under which licences."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from release.base_image import BaseImage
from release.shipped_packages import Package

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def build_sbom(
    name: str,
    version: str,
    packages: Iterable[Package],
    licences: Mapping[str, str],
    *,
    epoch: int,
    base: BaseImage | None = None,
) -> dict[str, Any]:
    """Describes what an image holds.

    Args:
        name: Of the image, such as `podtune-agent`.
        version: Of Podtune.
        packages: The Python packages in it.
        licences: Their licences, as SPDX expressions, by name.
        epoch: The time that it is made for, in seconds since 1970.
        base: What an image is made from; none for what is installed by pip.
    """
    listed = sorted(packages)
    own = f"pkg:pypi/podtune@{version}" if base is None else f"pkg:oci/{name}?tag={version}"
    content: dict[str, Any] = {
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application" if base is None else "container",
                "bom-ref": own,
                "name": name,
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "purl": own,
                **({} if base is None else {"pedigree": {"ancestors": [_describe_base(base)]}}),
            },
        },
        "components": [_describe(package, licences[package.name]) for package in listed],
        "dependencies": [{"ref": own, "dependsOn": [package.url for package in listed]}],
        # Of the base image it knows which one it is, and not what packages it has.
        "compositions": [{"aggregate": "incomplete", "assemblies": [own]}],
    }
    # Made from what it says, the number is the same where that is.
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {"$schema": _SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}"}
    return {**head, "version": 1, **content}


def _describe_base(base: BaseImage) -> dict[str, Any]:
    return {
        "type": "container",
        "name": base.repository,
        "version": base.tag or base.digest,
        "hashes": [{"alg": "SHA-256", "content": base.digest.removeprefix("sha256:")}],
        "purl": base.url,
    }


def _describe(package: Package, licence: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "licenses": [{"expression": licence}],
        "purl": package.url,
    }
