"""The image that ours are made from, pinned by its digest in the Dockerfile; a release takes no other.

`python -m release.base_image` prints it. With `--write`, it pins what its tag names now; this needs skopeo.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from release.shipped_packages import ROOT

_ARGUMENT = re.compile(r"(?<=^ARG BASE_IMAGE=)\S+$", re.MULTILINE)
_REFERENCE = re.compile(
    r"(?P<repository>[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9._-]+)+)(?::(?P<tag>[\w.-]+))?@(?P<digest>sha256:[0-9a-f]{64})"
)
_PIN = "`python -m release.base_image --write` pins the one of today"


class UnpinnedBaseImage(ValueError):
    """An image is named without its digest, so that nobody can tell later what a release was made from."""


@dataclass(frozen=True, slots=True)
class BaseImage:
    """An image of a registry, of one content."""

    repository: str
    """Where it is, with the registry: `docker.io/library/python`."""
    tag: str
    """What it was called when it was pinned; may be empty."""
    digest: str
    """Of its index of all platforms, or of its manifest: `sha256:…`."""

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.repository}:{self.tag}" if self.tag else self.repository

    @property
    def pulled(self) -> str:
        """What is pulled: with a tag beside the digest, some programs refuse it."""
        return f"{self.repository}@{self.digest}"

    @property
    def url(self) -> str:
        """Its package URL, by which scanners know it."""
        tag = f"&tag={self.tag}" if self.tag else ""
        name = self.repository.rpartition("/")[2]
        return f"pkg:oci/{name}@{quote(self.digest, safe='')}?repository_url={self.repository}{tag}"

    def __str__(self) -> str:
        return f"{self.name}@{self.digest}"


def parse_base_image(reference: str) -> BaseImage:
    """Reads the name of an image.

    Args:
        reference: As `docker.io/library/python:3.12-slim@sha256:…`; the tag may be left out.

    Raises:
        UnpinnedBaseImage: It has no digest, or no registry in front.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise UnpinnedBaseImage(
            f"base image {reference!r}: a release needs registry, name and digest, such as "
            f"docker.io/library/python:3.12-slim@sha256:…, since others may move a tag. {_PIN}"
        )
    return BaseImage(found["repository"], found["tag"] or "", found["digest"])


def read_base_image(root: Path = ROOT) -> BaseImage:
    """Reads which image the Dockerfile pins.

    Raises:
        UnpinnedBaseImage: It pins none.
    """
    found = _ARGUMENT.search((root / "Dockerfile").read_text(encoding="utf-8"))
    return parse_base_image("" if found is None else found[0])


def pin_base_image(image: BaseImage, root: Path) -> None:
    """Writes into the Dockerfile which image it is made from."""
    path = root / "Dockerfile"
    path.write_text(_ARGUMENT.sub(str(image), path.read_text(encoding="utf-8")), encoding="utf-8")


def look_up_digest(name: str) -> str:
    """Asks the registry what a tag names now."""
    command = ["skopeo", "inspect", "--format", "{{.Digest}}", f"docker://{name}"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the image, or pins it anew."""
    parser = argparse.ArgumentParser(prog="python -m release.base_image", description="The image ours are made from.")
    parser.add_argument("--write", action="store_true", help="pin what its tag names now in the Dockerfile")
    given = parser.parse_args(arguments)
    image = read_base_image(ROOT)
    if given.write:
        if shutil.which("skopeo") is None:
            parser.error("--write asks the registry by skopeo, which is not installed: apt-get install skopeo")
        image = parse_base_image(f"{image.name}@{look_up_digest(image.name)}")
        pin_base_image(image, ROOT)
    print(image)
    return 0


if __name__ == "__main__":
    sys.exit(main())
