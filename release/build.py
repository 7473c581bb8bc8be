"""Makes all files of a release but the images: `python -m release.build --output dist`.

They are the wheel, the charts and the manifest that Helm makes of them, a bill of materials for each image and for the
command line, the list of licences, the statements on vulnerabilities, and the digests of all files in the folder. The
same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from integrations.install_manifest import build_install_manifest
from podtune import __version__
from release.base_image import UnpinnedBaseImage, read_base_image
from release.charts import CHARTS, ELSEWHERE, pack_chart
from release.licences import read_licences, write_list
from release.sbom import build_sbom
from release.shipped_packages import OURS, ROOT, list_packages, read_lock

DESCRIPTIONS = ("SECURITY-INSIGHTS.yml", "podtune.openvex.json")
DIGESTS = "SHA256SUMS"
INSTALL_MANIFEST = "install.yaml"
BASE_IMAGE = "base-image.txt"
"""Names what the images are made from."""


def find_epoch(root: Path = ROOT) -> int:
    """Finds the time that all files of a release bear: SOURCE_DATE_EPOCH, or else that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def build_wheel(root: Path, folder: Path, *, epoch: int) -> Path:
    """Builds the wheel, with the build backend that is installed here: requirements/build.txt pins it.

    Args:
        root: The repository.
        folder: Where the wheel goes.
        epoch: The time that its files bear, in seconds since 1970.
    """
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    subprocess.run(command, cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)
    return folder / f"podtune-{__version__}-py3-none-any.whl"


def write_sboms(root: Path, folder: Path, *, epoch: int) -> None:
    """Writes a bill of materials for each image and for the command line, and the licences of all they name."""
    base = read_base_image(root)
    licences = read_licences(root / "requirements" / "licences.json")
    described = {f"podtune-{target}": list_packages(target, root) for target in OURS}
    described["podtune-cli"] = read_lock(root / "requirements" / "cli.txt")
    for name, packages in described.items():
        made_from = None if name == "podtune-cli" else base
        sbom = build_sbom(name, __version__, packages, licences, epoch=epoch, base=made_from)
        (folder / f"{name}.cdx.json").write_text(json.dumps(sbom, indent=1) + "\n", encoding="utf-8")
    everything = {package for packages in described.values() for package in packages}
    (folder / "LICENCES.md").write_text(write_list(everything, licences), encoding="utf-8")


def write_descriptions(root: Path, folder: Path, *, repository: str) -> None:
    """Writes what the project says of itself, with the address of the repository that makes the release."""
    for name in DESCRIPTIONS:
        text = (root / name).read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(ELSEWHERE, repository), encoding="utf-8")


def write_digests(folder: Path, paths: Iterable[Path]) -> None:
    """Writes the digests of files as `sha256sum` does, which then can check them."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(paths)]
    (folder / DIGESTS).write_text("".join(lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the files."""
    parser = argparse.ArgumentParser(prog="python -m release.build", description="Makes the files of a release.")
    parser.add_argument("--output", type=Path, default=Path("dist"), help="folder for them; dist by default")
    parser.add_argument("--repository", default=ELSEWHERE, help="address of the repository, with https://")
    parser.add_argument(
        "--registry", default="", help="where the charts' images are, such as registry.example.com/team"
    )
    parser.add_argument("--helm", default="", help=f"Helm's program, which makes {INSTALL_MANIFEST} of the charts")
    given = parser.parse_args(arguments)
    folder = given.output.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / DIGESTS).exists():
        parser.error(f"{given.output} has the files of a release already: name another folder")
    try:
        base = read_base_image()
    except UnpinnedBaseImage as error:
        parser.error(f"ARG BASE_IMAGE in Dockerfile: {error}")
    epoch = find_epoch()
    build_wheel(ROOT, folder, epoch=epoch)
    places = {"registry": given.registry, "repository": given.repository}
    charts = {name: pack_chart(ROOT / "charts" / name, folder, epoch=epoch, **places) for name in CHARTS}
    if given.helm:
        manifest = build_install_manifest(given.helm, charts=charts)
        (folder / INSTALL_MANIFEST).write_text(manifest, encoding="utf-8")
    write_sboms(ROOT, folder, epoch=epoch)
    write_descriptions(ROOT, folder, repository=given.repository)
    (folder / BASE_IMAGE).write_text(f"{base}\n", encoding="utf-8")
    # Of what was in the folder before, too, such as the plugin's archives.
    write_digests(folder, list(folder.iterdir()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
