"""How images of a release are built, and what is read of them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from release.images import list_layers, main
from release.shipped_packages import OURS


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


def test_all_images_are_built_from_one_base_without_what_was_built_before(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr("release.images.subprocess.run", lambda command, check: commands.append(command))
    given = ["--base", "python@sha256:00", "--registry", "registry.example.com", "--version", "1.2.3", "--epoch", "99"]
    assert main(given) == 0
    tags = [command[command.index("--tag") + 1] for command in commands]
    assert tags == [f"registry.example.com/podtune-{target}:1.2.3" for target in OURS]
    for command in commands:
        assert {"--no-cache", "--layers=false", "BASE_IMAGE=python@sha256:00"} < set(command)
        assert command[command.index("--timestamp") + 1] == "99"
