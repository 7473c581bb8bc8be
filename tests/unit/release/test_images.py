"""How images of a release are built, and what is read of them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from itertools import pairwise
from pathlib import Path

import pytest

from release.images import list_layers, main
from release.shipped_packages import OURS

DIGEST = f"sha256:{'0a' * 32}"


def save_image(path: Path, layers: list[bytes], digests: list[str]) -> Path:
    files = {f"layer{number}.tar": layer for number, layer in enumerate(layers)}
    files["config.json"] = json.dumps({"rootfs": {"diff_ids": digests}}).encode()
    files["manifest.json"] = json.dumps([{"Config": "config.json", "Layers": list(files)[: len(layers)]}]).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def test_layers_are_told_by_what_they_hold(tmp_path: Path) -> None:
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in (b"one", b"two")]
    assert list_layers(save_image(tmp_path / "a.tar", [b"one", b"two"], digests)) == digests
    with pytest.raises(ValueError, match="the layers are not what the image's configuration says"):
        list_layers(save_image(tmp_path / "b.tar", [b"one", b"other"], digests))


GIVEN = ["--registry", "registry.example.com", "--version", "1.2.3", "--epoch", "99"]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would be run."""
    commands: list[list[str]] = []
    monkeypatch.setattr("release.images.subprocess.run", lambda command, check: commands.append(command))
    return commands


def test_all_images_are_built_from_one_base_without_what_was_built_before(commands: list[list[str]]) -> None:
    assert main(["--base", f"docker.io/library/python:3.12-slim@{DIGEST}", *GIVEN]) == 0
    tags = [command[command.index("--tag") + 1] for command in commands]
    assert tags == [f"registry.example.com/podtune-{target}:1.2.3" for target in OURS]
    for command in commands:
        assert {"--no-cache", "--layers=false", f"BASE_IMAGE=docker.io/library/python@{DIGEST}"} < set(command)
        assert command[command.index("--timestamp") + 1] == "99"


def test_each_image_says_what_it_is_made_from(commands: list[list[str]]) -> None:
    assert main(["--base", f"docker.io/library/python:3.12-slim@{DIGEST}", *GIVEN]) == 0
    for command in commands:
        for option in ("--annotation", "--label"):
            given = [value for key, value in pairwise(command) if key == option]
            assert given == [
                f"org.opencontainers.image.base.digest={DIGEST}",
                "org.opencontainers.image.base.name=docker.io/library/python:3.12-slim",
            ]


@pytest.mark.parametrize("base", ["docker.io/library/python:3.12-slim", f"python@{DIGEST}", "", "localhost/base:1"])
def test_from_a_base_without_its_digest_nothing_is_built(
    base: str, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--base", base, *GIVEN])
    assert commands == []
    said = capsys.readouterr().err
    assert f"--base: base image {base!r}" in said
    assert "python -m release.base_image --write" in said
