"""The copy of podtune.trial: programs of any Python from 3.8 on import it, and one that is installed precedes it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from podtune.agent.module_copy import copy_module
from podtune.client.packing import runner
from podtune.storage.directory import Directory
from podtune.trial import layout

PROGRAM = """
import json, sys
from podtune import trial
config = trial.params({"lr": 0.1, "layers": [1]})
trial.report({"loss": config["lr"], "val": {"loss": 2}, "name": "a", "ok": True}, checkpoint=sys.argv[1])
assert trial.seed(3) == 3 and trial.restored_checkpoint() is None
assert not trial.should_stop() and not trial.should_checkpoint()
print(trial.__file__)
"""
STREAM = """
from podtune import trial
for this in trial.stream():
    this.report({"lr": this.params()["lr"]})
"""
INSTALLED = "report = lambda metrics: None\n"


def find_oldest_python() -> str | None:
    """A Python 3.8, where there is one: on PATH, or as pyenv installs them."""
    installed = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python3"))
    return shutil.which("python3.8", path=os.pathsep.join([*(str(path.parent) for path in installed), os.defpath]))


OLDEST = find_oldest_python()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """What /podtune is in a pod."""
    directory = tmp_path / "podtune"
    directory.mkdir()
    copy_module(Directory(directory))
    return directory


def run(python: str, shared: Path, *words: str, path: str = "", **variables: str) -> str:
    """Runs a program in an empty directory, and returns what it prints; its Python knows no other podtune."""
    (place := shared.parent / "work").mkdir(exist_ok=True)
    environment = {"PODTUNE_DIR": str(shared), "PYTHONPATH": path or str(shared / layout.SITE_PACKAGES), **variables}
    command = [python, "-S", "-X", "dev", "-W", "error", *words]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "python",
    [
        pytest.param(sys.executable, id="this Python"),
        pytest.param(
            OLDEST, id="Python 3.8", marks=pytest.mark.skipif(OLDEST is None, reason="there is no Python 3.8")
        ),
    ],
)
class TestAnyPython:
    def test_a_program_without_podtune_reports_by_the_copy(self, python: str, shared: Path, tmp_path: Path) -> None:
        (tmp_path / "model").mkdir()
        printed = run(python, shared, "-c", PROGRAM, str(tmp_path / "model"))
        assert Path(printed) == shared / "site-packages/podtune/trial/__init__.py"
        result, end = map(json.loads, (shared / layout.RESULTS).read_text().splitlines())
        assert result | {layout.CHECKPOINT_KEY: ""} == {
            "loss": 0.1, "val/loss": 2, "name": "a", "ok": True, layout.CHECKPOINT_KEY: "",
        }  # fmt: skip
        assert end == {layout.DONE_KEY: True}

    def test_alone_it_prints(self, python: str, shared: Path) -> None:
        variables = {"PODTUNE_DIR": "", "PODTUNE_PARAM_lr": "0.5"}
        assert run(python, shared, "-c", STREAM, **variables) == "lr 0.5"

    def test_a_function_of_the_python_api_finds_it_without_a_variable(self, python: str, shared: Path) -> None:
        folder = shared.parent / "podtune-function"
        folder.mkdir()
        shutil.copy(runner.__file__, folder / "podtune_runner.py")
        (folder / "podtune_function.py").write_text("def podtune_entry(config):\n    yield {'loss': 1}\n")
        run(python, shared, str(folder / "podtune_runner.py"), path="/nowhere")
        assert json.loads((shared / layout.RESULTS).read_text().splitlines()[0]) == {"loss": 1}


@pytest.mark.parametrize(
    "path", [*Path(layout.__file__).parent.glob("*.py"), Path(runner.__file__)], ids=lambda p: p.name
)
def test_programs_import_nothing_but_the_standard_library_and_syntax_of_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        modules = (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        for name in modules:
            assert name.partition(".")[0] in {*sys.stdlib_module_names, "podtune"}
            assert name.partition(".")[0] != "podtune" or name == "podtune" or name.startswith("podtune.trial")


@pytest.mark.parametrize("first", [True, False], ids=["the copy first", "the installed one first"])
def test_it_yields_to_one_on_the_path(shared: Path, tmp_path: Path, first: bool) -> None:
    installed = install(tmp_path / "installed")
    order = [str(shared / layout.SITE_PACKAGES), str(installed)]
    path = os.pathsep.join(order if first else reversed(order))
    printed = run(sys.executable, shared, "-c", "from podtune import trial; print(trial.__file__)", path=path)
    assert Path(printed) == installed / "podtune/trial.py"


def test_it_yields_to_one_in_site_packages_though_those_come_last(shared: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True, with_pip=False)
    (site_packages,) = environment.glob("lib/python*/site-packages")
    install(site_packages)
    done = subprocess.run(
        [environment / "bin/python", "-c", "import sys; from podtune import trial; print(trial.__file__, *sys.path)"],
        env={"PYTHONPATH": str(shared / layout.SITE_PACKAGES)},
        capture_output=True,
        text=True,
        check=True,
    )
    found, *path = done.stdout.split()
    assert Path(found) == site_packages / "podtune/trial.py"
    assert path.index(str(shared / layout.SITE_PACKAGES)) < path.index(str(site_packages))


def install(site_packages: Path) -> Path:
    """A podtune of another version, as pip would install it."""
    package = site_packages / "podtune"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "trial.py").write_text(INSTALLED)
    return site_packages


def test_a_folder_of_the_programs_own_called_podtune_is_no_obstacle(shared: Path) -> None:
    script = shared.parent / "train.py"  # beside the shared directory, as a script in / is beside /podtune
    script.write_text("from podtune import trial; print(trial.__file__)")
    assert Path(run(sys.executable, shared, str(script))) == shared / "site-packages/podtune/trial/__init__.py"


def test_an_agent_that_is_started_again_leaves_it_alone(shared: Path) -> None:
    module = shared / "site-packages/podtune/trial/__init__.py"
    before = module.stat()
    copy_module(Directory(shared))
    assert (module.stat().st_ino, module.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_what_a_killed_agent_has_left_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / ".site-packages/podtune").mkdir(parents=True)
    copy_module(Directory(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["site-packages"]
    assert (tmp_path / "site-packages/podtune/trial/__init__.py").is_file()


def test_a_program_cannot_lead_it_out_of_the_shared_directory(tmp_path: Path) -> None:
    (shared := tmp_path / "podtune").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (shared / ".site-packages").symlink_to(elsewhere)
    copy_module(Directory(shared))
    assert list(elsewhere.iterdir()) == []
    assert not (shared / "site-packages").is_symlink()


def test_other_users_may_read_it_and_not_write(shared: Path) -> None:
    paths = [shared / "site-packages", *(shared / "site-packages").rglob("*")]
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_dir()} == {"0o755"}
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_file()} == {"0o644"}


def test_the_command_makes_it_or_says_why_it_can_not(tmp_path: Path) -> None:
    def copy_to(directory: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "podtune.agent.entry", "copy-module", str(directory)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert copy_to(tmp_path).returncode == 0
    assert (tmp_path / "site-packages/podtune/trial/__init__.py").is_file()
    failed = copy_to(tmp_path / "missing")
    assert failed.returncode == os.EX_TEMPFAIL
    assert f"podtune.trial can't be copied to {tmp_path}/missing: [Errno 2]" in failed.stderr
