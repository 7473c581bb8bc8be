"""The images of a release, built twice, have equal layers: whoever builds them again can compare."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.devcluster import kind
from e2e.devcluster.building import builds
from release.images import list_build_words, list_layers
from release.shipped_packages import OURS, ROOT

EPOCH = 1_780_000_000


def build(target: str, folder: Path, *, epoch: int) -> list[str]:
    """Builds an image as a release does, and returns the digests of its layers."""
    tag = f"localhost/podtune-release-{target}:test"
    saved = folder / f"{target}.tar"
    builds.build_as_told(list_build_words(target, tag, builds.base_tag(), epoch), tag, ROOT / "Dockerfile", saved)
    layers = list_layers(saved)
    saved.unlink()
    return layers


@pytest.mark.long
@pytest.mark.skipif(kind.is_used(), reason="releases are built by buildah, and this machine uses Docker")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("target", sorted(OURS))
def test_the_layers_of_an_image_are_the_same_bytes(target: str, tmp_path: Path) -> None:
    first = build(target, tmp_path, epoch=EPOCH)
    served = [] if target == "agent" else ["malloc's settings, which are no file"]
    layers = ["the base image's", "what is taken from it", *served, "ours"]
    assert len(first) == len(layers), layers
    assert build(target, tmp_path, epoch=EPOCH) == first
