"""The parts of the local cluster that need no cluster that runs."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.devcluster import cleanup, kind, layout
from e2e.devcluster.building import archives, builds, images, prometheus
from e2e.devcluster.building.archives import File
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import NODES, Layout
from e2e.devcluster.node import storage
from release.dockerfile import select_stages


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_nodes_share_a_namespace_so_nothing_of_theirs_may_collide() -> None:
    for attribute in ("address", "pod_subnet", "kubelet_port", "kubelet_health_port", "containerd", "kubelet"):
        assert len({getattr(node, attribute) for node in NODES}) == len(NODES)


def test_an_unknown_node_is_refused_by_name() -> None:
    with pytest.raises(ClusterError, match="n1, n2"):
        layout.node_named("n3")


def test_a_directory_with_other_content_is_never_taken_for_the_state(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ClusterError, match="PODTUNE_CLUSTER_STATE"):
        Layout(tmp_path).check_ours()


def test_the_state_directory_is_recognised_again(tmp_path: Path) -> None:
    state = Layout(tmp_path / "state")
    state.check_ours()
    state.create()
    state.check_ours()


def test_a_removal_that_was_broken_off_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = Layout(tmp_path / "state")
    state.create()

    def killed(path: Path) -> None:
        raise KeyboardInterrupt(path)

    with monkeypatch.context() as broken:
        broken.setattr("shutil.rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            state.remove()
    state.check_ours()
    state.remove()
    assert not state.state.exists()


def test_mounts_are_found_by_path_and_returned_deepest_first() -> None:
    mountinfo = "\n".join(
        f"{number} 1 8:1 / {path} rw - ext4 /dev/vda rw"
        for number, path in enumerate(("/", "/state/a", "/state/a/b\\040c", "/state-of-mind", "/other"))
    )
    assert cleanup.mounts_below(Path("/state"), mountinfo) == [Path("/state/a/b c"), Path("/state/a")]


def test_the_signature_covers_who_what_where_and_when() -> None:
    # That a server accepts it is shown by the smoke test; here, that nothing is left out of it.
    access = storage.S3Access("http://192.0.2.1:9000", "key", "secret")
    now = datetime(2013, 5, 24, tzinfo=UTC)
    headers = storage.sign(access, "GET", "/b/k", b"", now)
    assert headers["x-amz-date"] == "20130524T000000Z"
    assert "Credential=key/20130524/us-east-1/s3/aws4_request" in headers["authorization"]
    others = [
        storage.sign(replace(access, secret_key="other"), "GET", "/b/k", b"", now),
        storage.sign(replace(access, endpoint="http://192.0.2.2:9000"), "GET", "/b/k", b"", now),
        storage.sign(access, "PUT", "/b/k", b"", now),
        storage.sign(access, "GET", "/b/other", b"", now),
        storage.sign(access, "GET", "/b/k", b"body", now),
        storage.sign(access, "GET", "/b/k", b"", now.replace(second=1)),
    ]
    signatures = {signed["authorization"].rpartition("=")[2] for signed in (headers, *others)}
    assert len(signatures) == 1 + len(others)


def test_a_one_layer_image_has_the_digests_of_its_content(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"#!")
    files = [File("bin", directory=True), File("bin/program", source=program), File("bin/again", link="program")]
    archive = archives.ensure_one_layer("localhost/x:1", files, {"Cmd": ["program"]})
    with tarfile.open(archive.path) as tar:
        manifest = json.load(tar.extractfile("manifest.json") or io.BytesIO())[0]
        layer = tar.extractfile(manifest["Layers"][0])
        assert manifest["RepoTags"] == ["localhost/x:1"]
        assert layer is not None
        with tarfile.open(fileobj=layer) as content:
            assert content.getnames() == ["bin", "bin/program", "bin/again"]


def test_an_image_is_another_version_only_when_its_content_is_another(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"1")
    first = archives.ensure_one_layer("localhost/x:1", [File("program", source=program)], {})
    program.touch()
    assert archives.ensure_one_layer("localhost/x:1", [File("program", source=program)], {}) == first
    program.write_bytes(b"2")
    second = archives.ensure_one_layer("localhost/x:1", [File("program", source=program)], {})
    assert second != first
    assert archives.current("localhost/x:1") == second


def test_superseded_versions_do_not_fill_the_cache() -> None:
    for text in "abcdef":
        archives.ensure_one_layer("localhost/x:1", [File("file", text=text)], {})
    assert len(list(archives.current("localhost/x:1").path.parent.glob("*.tar"))) == 3


def test_an_image_never_built_says_how_to_build_it() -> None:
    with pytest.raises(ClusterError, match="build-image"):
        archives.current("localhost/never:1")


def test_what_a_dockerfile_copies_decides_whether_to_build_again(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "a.py", "b.py", "docs.md"):
        (tmp_path / name).write_text(name)
    (tmp_path / "src").mkdir()
    dockerfile = (
        "FROM x AS one\nCOPY pyproject.toml \\\n  src /src/\nCOPY --chown=1:1 *.py /app/\nCOPY --from=one /src /src\n"
    )
    assert builds.copied_paths(dockerfile, tmp_path) == [
        tmp_path / name for name in ("pyproject.toml", "src", "a.py", "b.py")
    ]


def test_a_target_is_not_built_again_for_what_other_targets_copy() -> None:
    stages = {
        "head": "ARG BASE=x\n",
        "build": "FROM ${BASE} AS build\nRUN make\n",
        "source": "FROM ${BASE} AS source\nCOPY src /src\n",
        "one-build": "FROM build AS one-build\nCOPY --from=source /src /src\n",
        "one": "FROM ${BASE} AS one\nCOPY --from=one-build /out /out\n",
        "two": "FROM build AS two\nCOPY other /other\n",
    }
    whole = "".join(stages.values())
    assert select_stages(whole, "one") == whole.replace(stages["two"], "")
    assert select_stages(whole, "two") == stages["head"] + stages["build"] + stages["two"]


def test_the_content_key_follows_content_and_not_by_products(tmp_path: Path) -> None:
    package = tmp_path / "src"
    (package / "__pycache__").mkdir(parents=True)
    (package / "a.py").write_text("1")
    key = builds.content_key(["FROM x"], tmp_path, [package])
    (package / "__pycache__" / "a.pyc").write_text("compiled")
    assert builds.content_key(["FROM x"], tmp_path, [package]) == key
    (package / "a.py").write_text("2")
    assert builds.content_key(["FROM x"], tmp_path, [package]) != key
    (package / "a.py").write_text("1")
    (package / "a.py").chmod(0o755)
    assert builds.content_key(["FROM x"], tmp_path, [package]) != key


@pytest.mark.parametrize(
    ("sources", "mirror"),
    [
        ("Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm\n", "http://mirror.invalid/debian"),
        ("deb [signed-by=/k] https://mirror.invalid/debian/ bookworm main", "https://mirror.invalid/debian/"),
    ],
)
def test_the_mirror_is_the_one_apt_uses(sources: str, mirror: str) -> None:
    assert builds.debian_mirror(sources) == mirror


@pytest.mark.parametrize(
    "sources",
    [
        "",
        "deb http://mirror.invalid/debian-security bookworm-security main",
        "# deb http://old.invalid/debian bookworm main",
    ],
)
def test_a_machine_without_a_mirror_says_so(sources: str) -> None:
    with pytest.raises(ClusterError, match="mirror"):
        builds.debian_mirror(sources)


def test_build_arguments_are_pairs() -> None:
    assert builds.parse_build_arguments(["A=1", "B=x=y"]) == {"A": "1", "B": "x=y"}
    with pytest.raises(ClusterError, match="KEY=VALUE"):
        builds.parse_build_arguments(["A"])


def test_the_storage_manifest_is_a_list_of_objects_with_the_pinned_image() -> None:
    access = storage.S3Access.generate("192.0.2.1")
    items = json.loads(storage.manifest(access, "/data"))["items"]
    assert [item["kind"] for item in items] == ["Namespace", "Secret", "Service", "Deployment"]
    assert items[3]["spec"]["template"]["spec"]["containers"][0]["image"] == images.s3_tag()
    assert access.secret_key not in json.dumps(items[3])


def test_kinds_workers_carry_the_labels_of_the_nodes(tmp_path: Path) -> None:
    configuration = json.loads(json.dumps(kind.cluster_configuration(Layout(tmp_path))))
    assert [node.get("labels") for node in configuration["nodes"]] == [None, *(node.labels for node in NODES)]


def test_who_may_not_unpack_prometheus_is_told_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.devcluster.building.prometheus.find_program", lambda name: None)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="install Prometheus, so that both are on the PATH"):
        prometheus.ensure()


def test_prometheus_of_the_machine_is_used_where_both_programs_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.devcluster.building.prometheus.find_program", lambda name: f"/opt/prometheus/{name}")
    assert prometheus.ensure() == Path("/opt/prometheus")
