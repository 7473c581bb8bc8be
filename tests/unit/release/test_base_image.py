"""The image that ours are made from is one that cannot change between two releases of the same commit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release import base_image
from release.base_image import BaseImage, UnpinnedBaseImage, main, parse_base_image, read_base_image
from release.dockerfile import split_stages
from release.shipped_packages import ROOT

DIGEST = f"sha256:{'0a' * 32}"
NEWER = f"sha256:{'0b' * 32}"
PINNED = f"docker.io/library/python:3.12-slim@{DIGEST}"
DOCKERFILE = f"# Images.\nARG BASE_IMAGE={PINNED}\nFROM ${{BASE_IMAGE}} AS build\n"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose registry says `NEWER` of the one tag that it has."""
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    skopeo = tmp_path / "bin" / "skopeo"
    skopeo.parent.mkdir()
    skopeo.write_text(f"""#!/bin/sh
test "$*" = "inspect --format {{{{.Digest}}}} docker://docker.io/library/python:3.12-slim" && echo {NEWER}
""")
    skopeo.chmod(0o755)
    monkeypatch.setenv("PATH", str(skopeo.parent), prepend=":")
    monkeypatch.setattr(base_image, "ROOT", tmp_path)
    return tmp_path


def test_every_stage_of_the_dockerfile_begins_with_the_pinned_image_or_with_another_stage() -> None:
    head, *stages = split_stages((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert f"ARG BASE_IMAGE={read_base_image()}\n" in head
    names: set[str] = set()
    for stage in stages:
        base, name = re.findall(r"^FROM (\S+) AS (\S+)$", stage.splitlines()[0])[0]
        assert base == "${BASE_IMAGE}" or base in names, f"{base} may be another image tomorrow"
        assert set(re.findall(r"--from=(\S+)", stage)) <= names
        names.add(name)


def test_a_name_is_read_with_or_without_its_tag() -> None:
    image = parse_base_image(PINNED)
    assert image == BaseImage("docker.io/library/python", "3.12-slim", DIGEST)
    assert str(image) == PINNED
    assert image.pulled == f"docker.io/library/python@{DIGEST}"
    untagged = parse_base_image(f"registry.example.com:5000/team/python@{DIGEST}")
    assert (untagged.name, untagged.digest) == ("registry.example.com:5000/team/python", DIGEST)


@pytest.mark.parametrize(
    "reference", ["docker.io/library/python:3.12-slim", f"python:3.12-slim@{DIGEST}", "docker.io/a/b@sha256:beef", ""]
)
def test_a_name_that_may_mean_something_else_is_refused(reference: str) -> None:
    with pytest.raises(UnpinnedBaseImage, match=r"a release needs registry, name and digest"):
        parse_base_image(reference)


def test_what_the_tag_names_now_is_pinned_in_the_dockerfile(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--write"]) == 0
    assert (checkout / "Dockerfile").read_text() == DOCKERFILE.replace(DIGEST, NEWER)
    assert capsys.readouterr().out == f"docker.io/library/python:3.12-slim@{NEWER}\n"


def test_without_being_told_to_it_only_says_what_is_pinned(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == f"{PINNED}\n"
    assert (checkout / "Dockerfile").read_text() == DOCKERFILE


def test_where_there_is_no_skopeo_it_says_so(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    with pytest.raises(SystemExit):
        main(["--write"])
    assert "skopeo, which is not installed" in capsys.readouterr().err
    assert (checkout / "Dockerfile").read_text() == DOCKERFILE
