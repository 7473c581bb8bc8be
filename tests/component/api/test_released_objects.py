"""Objects of earlier releases are still valid: a real API server takes each of them by today's definitions.

Needs the local cluster: `python -m e2e.devcluster up`, then pytest with `-m cluster` where KUBECONFIG points to it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.namespaces import run_label
from tests.component.api.definitions import install_definitions
from tests.golden.keep_release import RELEASES

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

NAMESPACE = "podtune-component-released"
RELEASED = sorted(path.name for path in RELEASES.iterdir())


def _kubectl(*arguments: str, given: object = None) -> subprocess.CompletedProcess[str]:
    text = None if given is None else json.dumps(given)
    return subprocess.run(["kubectl", *arguments], input=text, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module", autouse=True)
def namespace() -> Iterator[None]:
    install_definitions()
    metadata = {"name": NAMESPACE, "labels": run_label()}
    _kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield
    _kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def read_as_new(release: str, kind: str) -> list[dict[str, Any]]:
    """The objects as somebody would restore them from a backup."""
    objects = []
    for line in (RELEASES / release / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        kept = {
            name: found["metadata"][name] for name in ("name", "labels", "annotations") if name in found["metadata"]
        }
        objects.append({**found, "metadata": {**kept, "namespace": NAMESPACE}})
    return objects


@pytest.mark.parametrize("kind", ["experiments", "trials"])
@pytest.mark.parametrize("release", RELEASED)
def test_each_kept_object_is_taken(release: str, kind: str) -> None:
    objects = read_as_new(release, kind)
    made = _kubectl(
        *("create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-"),
        given={"apiVersion": "v1", "kind": "List", "items": objects},
    )
    assert made.returncode == 0, made.stderr
    assert len(made.stdout.splitlines()) == len(objects) > 5
