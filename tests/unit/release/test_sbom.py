"""Bills of materials: complete, the same each time, and as CycloneDX wants them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from podtune import __version__
from release.base_image import BaseImage, read_base_image
from release.build import write_sboms
from release.licences import read_licences
from release.sbom import build_sbom
from release.shipped_packages import OURS, ROOT, Package, list_packages

EPOCH = 1_780_000_000
BASE = BaseImage("docker.io/library/python", "3.12-slim", f"sha256:{'0a' * 32}")
VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
for path in sys.argv[1:]:
    if problem := JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(path, encoding="utf-8").read()):
        sys.exit(f"{path}: {problem!r}")
"""


def test_a_bill_names_each_package_with_version_licence_and_url() -> None:
    bill = build_sbom(
        "podtune-agent",
        "1.0.0",
        [Package("b", "2"), Package("a", "1")],
        {"a": "MIT", "b": "ISC OR MIT"},
        epoch=EPOCH,
        base=BASE,
    )
    assert [(part["purl"], part["licenses"]) for part in bill["components"]] == [
        ("pkg:pypi/a@1", [{"expression": "MIT"}]),
        ("pkg:pypi/b@2", [{"expression": "ISC OR MIT"}]),
    ]
    assert bill["dependencies"] == [
        {"ref": "pkg:oci/podtune-agent?tag=1.0.0", "dependsOn": ["pkg:pypi/a@1", "pkg:pypi/b@2"]}
    ]
    assert bill["metadata"]["timestamp"] == "2026-05-28T20:26:40Z"


def test_a_bill_of_an_image_names_what_the_image_is_made_from(tmp_path: Path) -> None:
    write_sboms(ROOT, tmp_path, epoch=EPOCH)
    base = read_base_image()
    for target in OURS:
        bill = json.loads((tmp_path / f"podtune-{target}.cdx.json").read_text())
        (ancestor,) = bill["metadata"]["component"]["pedigree"]["ancestors"]
        assert (ancestor["name"], ancestor["version"]) == ("docker.io/library/python", base.tag)
        assert ancestor["hashes"] == [{"alg": "SHA-256", "content": base.digest.partition(":")[2]}]
    cli = json.loads((tmp_path / "podtune-cli.cdx.json").read_text())
    assert "pedigree" not in cli["metadata"]["component"]
    assert cli["metadata"]["component"]["type"] == "application"


def test_a_base_has_the_package_url_of_an_image() -> None:
    assert BASE.url == (f"pkg:oci/python@sha256%3A{'0a' * 32}?repository_url=docker.io/library/python&tag=3.12-slim")


def test_bills_are_the_same_each_time_and_numbered_by_what_they_say(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        write_sboms(ROOT, tmp_path / name, epoch=EPOCH)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["LICENCES.md", *sorted(f"podtune-{name}.cdx.json" for name in [*OURS, "cli"])]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()
    bills = [json.loads((tmp_path / "one" / file).read_text()) for file in files[1:]]
    assert len({bill["serialNumber"] for bill in bills}) == len(bills)
    assert {bill["metadata"]["component"]["version"] for bill in bills} == {__version__}


def test_all_packages_of_all_images_are_in_the_list_of_licences(tmp_path: Path) -> None:
    write_sboms(ROOT, tmp_path, epoch=EPOCH)
    page, licences = (tmp_path / "LICENCES.md").read_text(), read_licences()
    for target in OURS:
        for package in list_packages(target):
            assert f"| {package.name} | {package.version} | {licences[package.name]} |" in page


@pytest.mark.long
def test_bills_are_valid_for_the_reference_library(tmp_path: Path) -> None:
    write_sboms(ROOT, tmp_path, epoch=EPOCH)
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with-requirements", str(ROOT / "requirements" / "release-checks.txt"), "python", "-c", VALIDATE]
    paths = [str(path) for path in tmp_path.glob("*.json")]
    checked = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    broken = json.loads(Path(paths[0]).read_text())
    broken["components"][0]["type"] = "libary"
    Path(paths[0]).write_text(json.dumps(broken))
    assert subprocess.run([*command, *paths], capture_output=True, check=False).returncode == 1
