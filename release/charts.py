"""Packs charts as `helm package` does, but the same bytes each time: Helm writes down the hour."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from pathlib import Path

import yaml

CHARTS = ("podtune-crds", "podtune")
ELSEWHERE = "https://…/podtune"
"""How files of the repository write where it is: that is known only where a release is made."""
_IMAGE = re.compile(r"^(\s+repository: )(podtune-[a-z]+)$", re.MULTILINE)


def pack_chart(chart: Path, folder: Path, *, epoch: int, registry: str = "", repository: str = ELSEWHERE) -> Path:
    """Packs one chart.

    Args:
        chart: Its folder.
        folder: Where the archive goes.
        epoch: The time that its files bear, in seconds since 1970.
        registry: Where its images are, such as `registry.example.com/team`; empty leaves their names as they are.
        repository: Where the release is made, with https://: its values name pages of it.
    """
    about = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            content = path.read_bytes()
            if path == chart / "values.yaml":
                content = _name_places(content.decode(), registry, repository).encode()
            entry = tarfile.TarInfo(f"{about['name']}/{path.relative_to(chart).as_posix()}")
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
            archive.addfile(entry, io.BytesIO(content))
    packed = folder / f"{about['name']}-{about['version']}.tgz"
    packed.write_bytes(gzip.compress(stream.getvalue(), mtime=epoch))
    return packed


def _name_places(values: str, registry: str, repository: str) -> str:
    """Values with the places that a release knows: of its images, and of its pages."""
    if registry:
        values = _IMAGE.sub(rf"\g<1>{registry}/\g<2>", values)
    return values.replace(ELSEWHERE, repository)
