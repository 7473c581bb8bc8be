"""The manifest for cert-manager, which no cluster of ours has: its names are those of the chart."""

from __future__ import annotations

from pathlib import Path

from podtune.app.settings import read_settings
from tests.documented_manifests import list_documents

ROOT = Path(__file__).parents[4]
PAGE = "docs/how-to/encrypt-results.md"


def test_the_certificate_is_for_the_service_and_the_secret_is_the_one_that_the_command_names() -> None:
    found = [(block, document) for block, document in list_documents() if document.get("kind") == "Certificate"]
    ((block, certificate),) = found
    assert block.place.startswith(PAGE)
    assert certificate["apiVersion"] == "cert-manager.io/v1"
    url = read_settings({"PODTUNE_AGENT_IMAGE": "a", "PODTUNE_POD_NAMESPACE": "podtune-system"}).agent.results_url
    assert certificate["spec"]["dnsNames"][0] in url
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert f"results.tls.secret={certificate['spec']['secretName']}" in text
