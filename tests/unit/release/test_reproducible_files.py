"""The files of a release, made twice from equal sources, are the same bytes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from podtune import __version__
from release import build
from release.base_image import parse_base_image, read_base_image
from release.build import DIGESTS, build_wheel, find_epoch, main, write_digests
from release.charts import CHARTS, pack_chart
from release.shipped_packages import ROOT

EPOCH = 1_780_000_000
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "operator", "crds", "charts", "requirements")


def copy_sources(target: Path, *, mode: int, time: int) -> Path:
    """A checkout as it could be on another machine: elsewhere, at another hour, by a user with another umask."""
    target.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)
    for path in target.rglob("*"):
        path.chmod(mode | (0o100 if path.is_dir() else 0))
        os.utime(path, (time, time))
    return target


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("checkouts")
    return [
        copy_sources(folder / "one", mode=0o644, time=1_700_000_000),
        copy_sources(folder / "another", mode=0o600, time=1_750_000_000),
    ]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_wheel_is_the_same_bytes(checkouts: list[Path], tmp_path: Path) -> None:
    wheels = [build_wheel(root, tmp_path / root.name, epoch=EPOCH) for root in checkouts]
    assert digest(wheels[0]) == digest(wheels[1])
    with zipfile.ZipFile(wheels[0]) as wheel:
        assert {entry.date_time for entry in wheel.infolist()} == {(2026, 5, 28, 20, 26, 40)}, "the commit's time"


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_the_same_bytes(name: str, checkouts: list[Path], tmp_path: Path) -> None:
    packed = []
    for root in checkouts:
        (tmp_path / root.name).mkdir()
        packed.append(pack_chart(root / "charts" / name, tmp_path / root.name, epoch=EPOCH))
    assert packed[0].name == packed[1].name
    assert digest(packed[0]) == digest(packed[1])


def read_chart(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {entry.name: stream.read() for entry in archive if (stream := archive.extractfile(entry)) is not None}


def test_a_packed_chart_holds_the_chart_and_names_where_its_images_and_its_pages_are(tmp_path: Path) -> None:
    plain = read_chart(pack_chart(ROOT / "charts" / "podtune", tmp_path, epoch=EPOCH))
    files = {path for path in (ROOT / "charts" / "podtune").rglob("*") if path.is_file()}
    assert plain == {
        f"podtune/{path.relative_to(ROOT / 'charts' / 'podtune').as_posix()}": path.read_bytes() for path in files
    }
    released = read_chart(
        pack_chart(
            ROOT / "charts" / "podtune",
            tmp_path,
            epoch=EPOCH,
            registry="registry.example.com/team",
            repository="https://git.example.com/team/tuning",
        )
    )
    values = yaml.safe_load(io.BytesIO(released["podtune/values.yaml"]))
    assert values["image"]["repository"] == "registry.example.com/team/podtune-operator"
    assert values["agent"]["image"]["repository"] == "registry.example.com/team/podtune-agent"
    assert values["dashboard"]["image"]["repository"] == "registry.example.com/team/podtune-dashboard"
    runbooks = values["metrics"]["prometheusRule"]["runbooks"]
    assert runbooks == "https://git.example.com/team/tuning/blob/main/docs/runbooks"
    del plain["podtune/values.yaml"], released["podtune/values.yaml"]
    assert plain == released


def test_the_time_is_the_commit_s_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    assert find_epoch() == 12
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert find_epoch() > 1_700_000_000


def test_digests_are_written_as_sha256sum_reads_them(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"")
    (tmp_path / "a").write_bytes(b"x")
    write_digests(tmp_path, [tmp_path / "b", tmp_path / "a"])
    assert (tmp_path / DIGESTS).read_text().splitlines() == [
        "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  a",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b",
    ]


def test_all_files_are_made_by_one_command_which_never_mixes_two_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    monkeypatch.setattr(
        build, "build_wheel", lambda root, folder, *, epoch: (folder / "podtune.whl").write_bytes(b"%d" % epoch)
    )
    helm = tmp_path / "helm"
    helm.write_text('#!/bin/sh\necho "# $3"\n', encoding="utf-8")
    helm.chmod(0o755)
    folder = tmp_path / "dist"
    made = ["--output", str(folder), "--repository", "https://example.com/a/podtune", "--helm", str(helm)]
    assert main(made) == 0
    names = {path.name for path in folder.iterdir()}
    listed = {line.partition("  ")[2] for line in (folder / DIGESTS).read_text().splitlines()}
    assert listed == names - {DIGESTS}
    assert {"SECURITY-INSIGHTS.yml", "podtune.openvex.json", "LICENCES.md", "podtune-agent.cdx.json"} < names
    assert {path.suffix for path in folder.iterdir()} >= {".whl", ".tgz"}
    assert (folder / "base-image.txt").read_text() == f"{read_base_image()}\n"
    manifest = (folder / "install.yaml").read_text(encoding="utf-8").splitlines()
    packed = [f"# {folder}/{chart}-{__version__}.tgz" for chart in CHARTS]
    assert manifest[-2:] == packed, "made of the charts of the release"
    insights = (folder / "SECURITY-INSIGHTS.yml").read_text(encoding="utf-8")
    assert "url: https://example.com/a/podtune\n" in insights
    with pytest.raises(SystemExit):
        main(made)
    assert "has the files of a release already: name another folder" in capsys.readouterr().err


def test_from_a_base_image_without_its_digest_no_release_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "read_base_image", lambda: parse_base_image("docker.io/library/python:3.12-slim"))
    with pytest.raises(SystemExit):
        main(["--output", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []
    assert "ARG BASE_IMAGE in Dockerfile: base image 'docker.io/library/python:3.12-slim'" in capsys.readouterr().err
