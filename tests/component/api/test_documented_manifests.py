"""Every manifest of the documentation, given to a real API server, and every block of values, to Helm."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml

from podtune.api.validation import parse_experiment
from tests.component.api.definitions import CHARTS, install_definitions
from tests.documented_manifests import complete, list_documents

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

TEMPLATE = ["template", "podtune", str(CHARTS / "podtune"), "--kube-version=1.34.0", "--values=-"]
FOREIGN = ("argoproj.io", "kustomize.toolkit.fluxcd.io", "cert-manager.io")
"""Groups of tools that are not on the cluster; `tests/unit/integrations/test_page.py` and
`tests/unit/docs/guides/test_encrypt_results_page.py` look at their manifests."""
DOCUMENTS = [
    (block.place, document)
    for block, document in list_documents()
    if str(document.get("apiVersion", "")).partition("/")[0] not in FOREIGN
]


@pytest.fixture(scope="module")
def definitions() -> None:
    install_definitions()


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize(("place", "document"), DOCUMENTS, ids=[place for place, _ in DOCUMENTS])
def test_every_manifest_and_part_of_one_is_accepted(place: str, document: dict[str, Any]) -> None:
    whole = complete(document)
    if whole is None:
        _run("helm", *TEMPLATE, stdin=yaml.safe_dump(document))
        return
    stored = _run("kubectl", "create", "--dry-run=server", "-o=yaml", "-f=-", stdin=yaml.safe_dump(whole))
    if whole["kind"] == "Experiment":
        parse_experiment(yaml.safe_load(stored))


def _run(*command: str, stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
