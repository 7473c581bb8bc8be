"""Builds the images of a release, each layer the same bytes every time: `python -m release.images`.

All files of a layer get one time, and each image has two layers on top of its base, and an empty one where it serves.
Whoever builds a commit again from the same base image gets the same layers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from release.base_image import BaseImage, UnpinnedBaseImage, parse_base_image
from release.shipped_packages import OURS, ROOT


def list_build_words(target: str, tag: str, base: str, epoch: int) -> list[str]:
    """Lists what buildah is told to build one image.

    Args:
        target: The image's target in the Dockerfile.
        tag: Its name.
        base: The image that it is made from; where it is to be made again elsewhere, by its digest.
        epoch: The time of all files, in seconds since 1970.
    """
    # No layers of earlier builds: what they hold has the time of another commit.
    once = ["--no-cache", "--layers=false", "--timestamp", str(epoch)]
    return ["bud", *once, "--target", target, "--build-arg", f"BASE_IMAGE={base}", "--tag", tag]


def _list_notes(base: BaseImage) -> Iterator[str]:
    """Lists the options that have an image say itself what it is made from.

    OCI has annotations for that, in which buildah would name the stage before the image's own. Labels are what
    `docker inspect` shows.
    """
    for key, value in (("digest", base.digest), ("name", base.name)):
        for kind in ("--annotation", "--label"):
            yield from (kind, f"org.opencontainers.image.base.{key}={value}")


def list_layers(archive: Path) -> list[str]:
    """Lists the digests of an image's layers, each of what it holds unpacked.

    Args:
        archive: The image as `docker save` and `buildah push … docker-archive:` write it.
    """
    with tarfile.open(archive) as content:
        (image,) = json.loads(_read(content, "manifest.json"))
        digests: list[str] = json.loads(_read(content, image["Config"]))["rootfs"]["diff_ids"]
        kept = [hashlib.sha256(_read(content, layer)).hexdigest() for layer in image["Layers"]]
    # An archive holds layers as they are unpacked; else it would be their names that are compared here, and not they.
    if [digest.removeprefix("sha256:") for digest in digests] != kept:
        raise ValueError(f"{archive}: the layers are not what the image's configuration says")
    return digests


def _read(content: tarfile.TarFile, name: str) -> bytes:
    stream = content.extractfile(name)
    if stream is None:
        raise ValueError(f"the image has no file {name}")
    return stream.read()


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds all images of a release into buildah's own store."""
    parser = argparse.ArgumentParser(prog="python -m release.images", description="Builds the images of a release.")
    parser.add_argument("--base", required=True, help="the image that they are made from, with its digest")
    parser.add_argument("--registry", required=True, help="where they will be, such as registry.example.com/team")
    parser.add_argument("--version", required=True, help="their tag")
    parser.add_argument("--epoch", required=True, type=int, help="the time of all files, in seconds since 1970")
    given = parser.parse_args(arguments)
    try:
        base = parse_base_image(given.base)
    except UnpinnedBaseImage as error:
        parser.error(f"--base: {error}")
    for target in OURS:
        tag = f"{given.registry}/podtune-{target}:{given.version}"
        words = [*list_build_words(target, tag, base.pulled, given.epoch), *_list_notes(base)]
        print(f"building {tag}", flush=True)
        subprocess.run(["buildah", *words, "--file", str(ROOT / "Dockerfile"), str(ROOT)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
