"""`kubectl podtune` as one file, and krew's manifest for it."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from integrations.krew import build
from podtune import __version__

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
PRODUCT = {
    "__init__.py": b"",
    "cli/__init__.py": b"",
    "cli/main.py": b"import shared, own\ndef main():\n    print(shared.TEXT, own.TEXT)\n    return 7\n",
}


def make_program(*pythons: str) -> bytes:
    """One that prints a word of a shared package, and one of its Python's own."""
    packages = {
        python: {"shared.py": b"TEXT = 'shared'", "own.py": f"TEXT = '{python}'".encode()} for python in pythons
    }
    return build.build_program(packages, PRODUCT)


def run_program(path: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": ""}
    return subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=False)


def test_it_runs_with_what_this_python_needs_and_unpacks_that_once(tmp_path: Path) -> None:
    program, cache = tmp_path / "kubectl-podtune", tmp_path / "cache"
    program.write_bytes(make_program("3.9", HERE))
    for _ in range(2):
        ended = run_program(program, cache)
        assert (ended.returncode, ended.stdout, ended.stderr) == (7, f"shared {HERE}\n", "")
    [unpacked] = (cache / "podtune").iterdir()
    assert sorted(path.name for path in unpacked.glob("*.py")) == ["own.py", "shared.py"]


def test_another_python_is_told_which_ones_do(tmp_path: Path) -> None:
    program = tmp_path / "kubectl-podtune"
    program.write_bytes(make_program("3.8", "3.9"))
    ended = run_program(program, tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"error: python3 is Python {HERE}; put one of these first in PATH: 3.8, 3.9\n"


def test_what_all_pythons_share_is_in_it_once() -> None:
    assert make_program("3.8", "3.9").count(b"lib/any/shared.py") == 2, "an archive names each file twice"
    assert b"lib/3.9/shared.py" not in make_program("3.8", "3.9")


def test_equal_sources_make_equal_files() -> None:
    assert build.pack(make_program("3.9", HERE)) == build.pack(make_program("3.9", HERE))


def test_the_manifest_names_each_archive_with_its_digest() -> None:
    archives = {name: build.pack(name.encode()) for name in build.PLATFORMS}
    manifest = yaml.safe_load(build.build_manifest(archives, __version__, "https://example.com/releases"))
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert manifest["metadata"]["name"] == "podtune"
    assert manifest["spec"]["version"] == f"v{__version__}"
    for platform, (name, archive) in zip(manifest["spec"]["platforms"], archives.items(), strict=True):
        labels = platform["selector"]["matchLabels"]
        assert f"{labels['os']}-{labels['arch']}" == name
        assert platform["uri"].endswith(f"/v{__version__}/kubectl-podtune-{name}.tar.gz")
        assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
        with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
            member = opened.getmember(platform["bin"])
            assert member.mode & 0o111
            assert opened.getnames() == ["kubectl-podtune", "LICENSE"]


def test_the_pythons_are_those_that_the_product_supports() -> None:
    text = (build.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={build.PYTHONS[0]}"' in text
    caveats = yaml.safe_load((build.HERE / "podtune.yaml").read_text(encoding="utf-8"))["spec"]["caveats"]
    assert f"Python {build.PYTHONS[0]} to {build.PYTHONS[-1]}" in caveats


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_real_one_validates_a_manifest_and_says_its_version(tmp_path: Path) -> None:
    command = [sys.executable, str(build.HERE / "build.py"), "--python", HERE, "--output", str(tmp_path / "built")]
    subprocess.run(command, check=True, timeout=600)
    program = tmp_path / "built" / "kubectl-podtune"
    # An interpreter without any packages, as a user has it.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    plain = [sys.executable, "-I", "-S", str(program)]
    example = build.ROOT / "examples" / "shell" / "experiment.yaml"
    for words, expected in ((["version"], __version__), (["validate", str(example)], "valid")):
        ended = subprocess.run([*plain, *words], env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert expected in ended.stdout
