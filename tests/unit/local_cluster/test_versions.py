"""Clusters of several versions of Kubernetes: told apart, side by side, and each built from modules of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e.devcluster import cleanup, kind, versions
from e2e.devcluster.building import tools
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import Layout, cluster_cgroup, network_namespace
from e2e.devcluster.node import cgroups, gpus, network
from e2e.devcluster.versions import KUBERNETES_VERSION, OTHER_VERSIONS, VARIABLE

MINORS = [KUBERNETES_VERSION.rpartition(".")[0], *OTHER_VERSIONS]
MODULES = Path(tools.__file__).parents[1] / "tools"


def find_names() -> list[object]:
    """All names that two clusters on one machine would fight over."""
    return [
        *(Layout.from_environment().state, network.namespace_file(), network_namespace()),
        *(cluster_cgroup(), cgroups.components_cgroup(), gpus.find_mark()),
    ]


def find_tools(module: Path) -> list[str]:
    """The names that Go gives to the programs of a module."""
    block = re.search(r"^tool \((.*?)^\)", (module / "go.mod").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    return re.findall(r"/([\w-]+)(?:/v3)?$", block[1], re.MULTILINE)


@pytest.mark.parametrize("state", [None, "/srv/cluster"])
def test_clusters_of_two_versions_share_nothing(monkeypatch: pytest.MonkeyPatch, state: str | None) -> None:
    if state:
        monkeypatch.setenv("PODTUNE_CLUSTER_STATE", state)
    found = {}
    for minor in MINORS:
        monkeypatch.setenv(VARIABLE, minor)
        found[minor] = find_names()
    for names in zip(*found.values(), strict=True):
        assert len(set(names)) == len(MINORS)
    monkeypatch.delenv(VARIABLE)
    assert find_names() == found[MINORS[0]], "the version of all tests is the one nobody need ask for"


def test_a_version_that_there_is_not_is_refused_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1.12")
    with pytest.raises(ClusterError, match=rf"{VARIABLE}=1\.12: the local cluster comes in {', '.join(MINORS)}"):
        versions.find_version()


@pytest.mark.parametrize(("minor", "version"), [(MINORS[0], KUBERNETES_VERSION), *OTHER_VERSIONS.items()])
def test_every_module_pins_the_version_that_is_said(minor: str, version: str) -> None:
    folder = MODULES if version == KUBERNETES_VERSION else MODULES / f"kubernetes-{minor}"
    text = (folder / "go.mod").read_text()
    assert version.rpartition(".")[0] == minor
    assert f"k8s.io/kubernetes v{version} " in text
    replaced = dict(re.findall(r"^\t(k8s\.io/[\w-]+) => \1 (\S+)$", text, re.MULTILINE))
    assert set(replaced.values()) == {f"v0.{version.partition('.')[2]}"}


def test_the_programs_of_another_version_are_built_and_the_rest_is_shared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built: list[tuple[str, str]] = []

    def build(words: list[str | Path], log: Path, heed: Callable[[str], None], **options: Any) -> None:
        if words[1] == "install":
            module = Path(words[3])
            built.append((module.name, next(str(word) for word in words if "gitVersion" in str(word))))
            for name in find_tools(module):
                program = Path(options["environment"]["GOBIN"]) / name
                program.parent.mkdir(parents=True, exist_ok=True)
                program.write_text(module.name)
                program.chmod(0o755)

    monkeypatch.setattr(tools, "follow", build)
    monkeypatch.setattr(tools, "find_go", lambda: Path("go"))
    task = SimpleNamespace(done=0, detail="", count_to=lambda _: None)
    monkeypatch.setattr(tools, "screen", SimpleNamespace(say=lambda _: None, task=lambda *_: nullcontext(task)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    todays = tools.ensure()
    for minor, version in OTHER_VERSIONS.items():
        monkeypatch.setenv(VARIABLE, minor)
        assert tools.installed() is None
        other = tools.ensure()
        assert tools.installed() == other
        assert (built[-1][0], f"gitVersion=v{version} " in built[-1][1]) == (f"kubernetes-{minor}", True)
        assert (other / "kubelet").read_text() == f"kubernetes-{minor}"
        assert (other / "etcd").resolve() == todays / "etcd"
        (todays / "etcd").rename(tmp_path / "etcd")
        assert tools.installed() is None, "what is shared is gone from the cache"
        (tmp_path / "etcd").rename(todays / "etcd")
    monkeypatch.delenv(VARIABLE)
    assert tools.installed() == todays


@pytest.mark.parametrize("going", ["1.33", ""])
def test_a_cluster_that_goes_leaves_the_others_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, going: str
) -> None:
    plugins, results = tmp_path / "device-plugins", tmp_path / "results"
    monkeypatch.setattr(gpus, "DEVICE_PLUGINS", plugins)
    monkeypatch.setattr(cleanup, "_CNI_RESULTS", results)
    monkeypatch.setattr(cleanup, "_SHIM_SOCKETS", tmp_path / "shims")
    monkeypatch.setattr(cleanup, "_CONTAINER_LOGS", tmp_path / "logs")
    monkeypatch.setenv("PODTUNE_CLUSTER_STATE", str(tmp_path / "state"))
    for folder in (plugins, results):
        folder.mkdir()
    (plugins / "kubelet.sock").touch()
    for minor in ("", "1.33"):
        monkeypatch.setenv(VARIABLE, minor)
        gpus.find_mark().touch()
        (results / f"pod-{minor}").write_text(f'{{"netns": "{Layout.from_environment().state}/n1/netns/x"}}')
    monkeypatch.setenv(VARIABLE, going)
    cleanup._remove_strays(Layout.from_environment())
    kept = "" if going else "1.33"
    assert [path.name for path in results.iterdir()] == [f"pod-{kept}"]
    assert not gpus.find_mark().exists()
    monkeypatch.setenv(VARIABLE, kept)
    assert gpus.find_mark().exists()
    assert (plugins / "kubelet.sock").exists()
    cleanup._remove_strays(Layout.from_environment())
    assert not plugins.exists()


def test_other_versions_run_without_docker_also_where_docker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODTUNE_CLUSTER_MODE", "kind")
    for minor, uses_docker in ((MINORS[0], True), (MINORS[1], False)):
        monkeypatch.setenv(VARIABLE, minor)
        kind.is_used.cache_clear()
        assert kind.is_used() is uses_docker
    kind.is_used.cache_clear()


def test_no_test_for_every_version_is_passed_over() -> None:
    root = Path(tools.__file__).parents[3]
    listed = re.search(r"^VERSIONED := ((?:.*\\\n)*.*)$", (root / "Makefile").read_text(), re.MULTILINE)
    assert listed is not None
    places = [root / word for word in listed[1].replace("\\", " ").split()]
    marked = [
        path
        for folder in (root / "tests" / "component", root / "e2e")
        for path in folder.rglob("test_*.py")
        if "pytest.mark.every_version" in path.read_text()
    ]
    assert marked
    assert all(place.exists() for place in places)
    assert [path for path in marked if not any(place in (path, *path.parents) for place in places)] == []
