"""`podtune validate` has the verdict that API server and operator have, whatever people write wrong."""

from __future__ import annotations

import pytest

from podtune.api.document_checks import check_document
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client.api_client import HttpApi
from podtune.cli.client.kubeconfig import connect
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal
from tests.component.api.definitions import install_definitions
from tests.component.api.wrong_manifests import FINE, WRONG, WrongManifest

pytestmark = [pytest.mark.cluster, pytest.mark.every_version]

_TRY = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture(scope="module")
def api() -> HttpApi:
    install_definitions()
    return HttpApi(connect())


def refuse(api: HttpApi, case: WrongManifest) -> str:
    """What the cluster says of a manifest; empty where it takes it."""
    try:
        taken = api.create(paths.experiments("default"), case.build(), _TRY)
        parse_experiment(taken)
    except (ApiRefusal, InvalidSpec) as refusal:
        return str(refusal)
    return ""


def test_what_is_refused_offline_the_cluster_refuses(api: HttpApi) -> None:
    assert [case.name for case in WRONG if not refuse(api, case)] == []


def test_what_passes_offline_the_cluster_takes(api: HttpApi) -> None:
    assert {case.name: said for case in FINE if (said := refuse(api, case))} == {}
    assert [case.name for case in FINE if check_document(case.build(), UNKNOWN_POLICY)] == []
