"""The page of versions names each package that Podtune is installed with, in the ranges of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from e2e.devcluster.versions import KUBERNETES_VERSION, OTHER_VERSIONS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "explanation" / "dependency-lifecycle.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found[1]


def test_each_package_is_named_with_its_range() -> None:
    ranges: dict[str, set[str]] = defaultdict(set)
    for requirements in PROJECT["optional-dependencies"].values():
        for requirement in requirements:
            name = find(r"^([\w-]+)", requirement)
            ranges[name].add(requirement.removeprefix(name))
    rows = dict(re.findall(r"^\| ([\w-]+) \| (.*?`) \|", PAGE, re.MULTILINE))
    listed = {name: set(re.findall("`([^`]+)`", text)) for name, text in rows.items()}
    assert listed == ranges


def test_the_versions_of_python_are_those_of_the_package() -> None:
    minors = sorted(int(text) for text in re.findall(r"Python :: 3\.(\d+)", " ".join(PROJECT["classifiers"])))
    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert f"| 3.{minors[0]} to 3.{minors[-1]} |" in PAGE
    for minor in minors:
        assert re.search(rf"3\.{minor} after October \d{{4}}|3\.{minor} after\nOctober \d{{4}}", PAGE)
    image = find(r"BASE_IMAGE=\S+/python:(3\.\d+)-slim@", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert f"images | {image} |" in PAGE


def test_the_versions_of_kubernetes_are_those_of_charts_and_tests() -> None:
    for chart in ("podtune", "podtune-crds"):
        about = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8"))
        minimum = find(r"^>=(1\.\d+)\.0-0$", about["kubeVersion"])
        assert f"Podtune needs Kubernetes {minimum}," in PAGE
    rows = dict(re.findall(r"^\| (1\.\d+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert list(rows) == [find(r"^(1\.\d+)\.", KUBERNETES_VERSION), *OTHER_VERSIONS]
    assert [words for words in rows.values() if words == "everything"] == ["everything"]
    assert f"| others from {minimum} on | nothing" in PAGE


def test_the_version_of_the_prometheus_operator_is_that_of_the_tests() -> None:
    module = (ROOT / "e2e" / "devcluster" / "tools" / "prometheus-operator" / "go.mod").read_text(encoding="utf-8")
    version = find(r"require github.com/prometheus-operator/prometheus-operator v(\S+)", module)
    assert re.search(rf"Prometheus operator: [^.]*\bversion\s{re.escape(version)}\.", PAGE)


@pytest.mark.parametrize(("tool", "module"), [("krew", "sigs.k8s.io/krew"), ("k9s", "github.com/derailed/k9s")])
def test_the_versions_of_krew_and_k9s_are_those_of_the_tests(tool: str, module: str) -> None:
    pins = (ROOT / "tests" / "unit" / "integrations" / "tools" / tool / "go.mod").read_text(encoding="utf-8")
    version = find(rf"{module} v(\S+)", pins)
    assert re.search(rf"\b{tool}\s{re.escape(version)}[.,]\s", PAGE)
