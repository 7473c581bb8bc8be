"""What `podtune best --export-manifest` prints is taken by a real API server as it is."""

from __future__ import annotations

import pytest
import yaml

from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.cli.commands.experiments.best_manifest import ManifestKind, build_best_manifest
from podtune.kube import paths
from tests.component.api.definitions import install_definitions
from tests.component.api.wrong_manifests import GOOD

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

COLLECTIONS = {
    ManifestKind.JOB: "/apis/batch/v1/namespaces/default/jobs",
    ManifestKind.EXPERIMENT: paths.experiments("default"),
}


@pytest.mark.parametrize("kind", list(ManifestKind))
def test_the_api_server_takes_it(kind: ManifestKind) -> None:
    install_definitions()
    item = yaml.safe_load(GOOD.read_text())
    item["metadata"]["namespace"] = "default"
    parameters = {"learning_rate": "0.004", "hidden_units": "144", "activation": "relu"}
    item["status"] = {"best": {"trial": "digits-4", "value": "0.97", "parameters": parameters}}
    manifest = build_best_manifest(item, kind)
    taken = HttpApi(connect()).create(COLLECTIONS[kind], manifest, {"dryRun": "All", "fieldValidation": "Strict"})
    assert taken["metadata"]["name"] == "digits-best"
