"""The workflow that makes releases: pinned, with few rights, and with commands that are there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.devcluster.building.tools import find_go
from release.shipped_packages import OURS, ROOT

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
TEXT = WORKFLOW.read_text(encoding="utf-8")
# YAML 1.1 takes the key `on` for true.
CONTENT: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = CONTENT["jobs"]
STEPS = [(job, step) for job, content in JOBS.items() for step in content["steps"]]
SCRIPTS = [step["run"] for _, step in STEPS if "run" in step]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


def test_only_a_tag_of_a_version_starts_it() -> None:
    assert CONTENT[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}


def test_each_action_is_pinned_by_its_commit_with_its_version_beside_it() -> None:
    uses = re.findall(r"uses: (.+)", TEXT)
    assert uses
    for action in uses:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_what_builds_has_no_right_to_publish_and_what_publishes_builds_nothing() -> None:
    assert CONTENT["permissions"] == {}
    for job in ("headlamp", "build"):
        assert JOBS[job]["permissions"] == {"contents": "read"}
    assert JOBS["publish"]["permissions"] == {
        "contents": "write",
        "packages": "write",
        "id-token": "write",
        "attestations": "write",
    }
    assert JOBS["publish"]["needs"] == "build"
    assert not [step for job, step in STEPS if job == "publish" and "checkout" in step.get("uses", "")]


def test_a_failure_anywhere_in_a_script_ends_it() -> None:
    assert CONTENT["defaults"] == {"run": {"shell": "bash"}}, "else what fails in front of a pipe passes"


def test_nothing_that_somebody_else_chooses_is_pasted_into_a_script() -> None:
    for script in SCRIPTS:
        assert "${{" not in script, "give it to the script as a variable"


@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_script_is_valid_for_bash_and_starts_what_is_there(script: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
    for module in re.findall(r"python -m ([\w.]+)", script):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()
    targets = [word for words in re.findall(r"^make ([a-z ]+)", script, re.MULTILINE) for word in words.split()]
    for target in targets:
        assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in re.findall(r"(?<=python )[\w/]+\.py|(?<=python3 )[\w/]+\.py", script):
        assert (ROOT / path).is_file()


def test_the_versions_that_a_tag_is_compared_with_are_written_so(tmp_path: Path) -> None:
    (script,) = [step["run"] for _, step in STEPS if step["name"] == "The tag is the version, everywhere"]
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for name in ("pyproject.toml", "operator/podtune/__init__.py", "charts/podtune/Chart.yaml", "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "charts" / "podtune-crds", tmp_path / "charts" / "podtune-crds")
    (tmp_path / "tests" / "golden" / "releases" / version[1]).mkdir(parents=True)

    def run(tag: str) -> int:
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        return subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=False).returncode

    assert run(f"v{version[1]}") == 0
    assert run("v99.0.0") != 0
    shutil.rmtree(tmp_path / "tests")
    assert run(f"v{version[1]}") != 0, "a release is kept for later versions to be tested with"


def test_what_npm_brings_runs_where_nothing_else_is_built() -> None:
    scripts = {job: " ".join(step.get("run", "") for of, step in STEPS if of == job) for job in JOBS}
    assert [job for job, script in scripts.items() if re.search(r"headlamp|npm", script)] == ["headlamp"]
    assert not re.search(r"make |release\.|krew", scripts["headlamp"])
    assert JOBS["build"]["needs"] == "headlamp", "its archive is among the files whose digests are signed"


def test_all_images_are_handed_on() -> None:
    (script,) = [script for script in SCRIPTS if "release.images" in script]
    handed = re.search(r"for image in (.+); do", script)
    assert handed is not None
    assert handed[1].split() == list(OURS)


def test_images_are_built_from_the_base_that_the_files_of_the_release_name_and_from_no_tag() -> None:
    (script,) = [script for script in SCRIPTS if "release.images" in script]
    assert re.findall(r"--base (\S+ \S+)", script) == ['"$(cat dist/base-image.txt)"']
    for other in SCRIPTS:
        assert not re.search(r"docker://docker\.io|docker pull|buildah (from|bud|build|pull)|python:\d", other)


def test_a_release_says_which_programs_of_the_machine_have_built_it() -> None:
    """They are the machine's, whose versions nobody here chooses."""
    names = [step["name"] for job, step in STEPS if job == "build"]
    written = names.index("Write down which programs of this machine build")
    assert written < names.index("Build wheel, charts, manifest, bills of materials and digests"), "with its digest"
    script = JOBS["build"]["steps"][written]["run"]
    assert re.findall(r"(\S+) (?:--)?version", script) == ["python3.12", "helm", "buildah", "skopeo"]
    assert "tee dist/build-tools.txt" in script


@pytest.mark.long
def test_zizmor_finds_nothing() -> None:
    uv = Path(sys.executable).with_name("uv")
    command = [str(uv), "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with-requirements", str(ROOT / "requirements" / "release-checks.txt")]
    command += ["zizmor", "--offline", "--persona=pedantic", str(WORKFLOW)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.long
def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "GOBIN": str(tmp_path)}
    subprocess.run([find_go(), "install", ACTIONLINT], env=environment, check=True, timeout=280)
    found = subprocess.run([tmp_path / "actionlint", str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
