"""Trials in containers: what the engine's command is told, and a run with a stand-in for Docker."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.api.names import TrialState
from podtune.cli.errors import CliError
from podtune.local.containers import ContainerEngine, ContainerProcess, ContainerSettings, find_engine
from podtune.local.processes import ChildProcess
from podtune.local.starting import resume_run, start_run
from podtune.local.volumes import Mount
from tests.unit.local.experiments import PATIENCE, follow, make_manifest

# Runs a container's command on this machine: /podtune is where it is mounted from, and all that was asked is kept.
STAND_IN = r"""#!/bin/sh
echo "$@" >> "$ASKED"
case "$1" in
  ps) exit ${DAEMON:-0} ;;
  image) [ "$3" = here:1 ] ;;
  pull) [ "$2" = elsewhere:1 ] || { echo "Using default tag" >&2; echo "$2: not found" >&2; exit 1; } ;;
  inspect) cat "$ASKED.oom" 2>/dev/null || echo false ;;
  run)
    shift
    while [ $# -gt 0 ]; do
      case "$1" in
        --volume) case "$2" in *:/podtune) PODTUNE_DIR="${2%%:*}" ;; esac; shift 2 ;;
        --entrypoint) first="$2"; shift 2 ;;
        --*) shift 2 ;;
        *) break ;;
      esac
    done
    shift
    export PODTUNE_DIR
    exec "$first" "$@" ;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with a stand-in for Docker."""
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "ASKED": str(tmp_path / "asked")}


def _build(engine: str, **changes: Any) -> str:
    settings: dict[str, Any] = {
        "name": "podtune-u1",
        "image": "train:1",
        "command": (),
        "arguments": (),
        "environment": {},
        "workdir": "",
        "mounts": (),
        "gpus": (),
        "limits": {},
    }
    return shlex.join(ContainerEngine(engine, engine).build_command(ContainerSettings(**{**settings, **changes})))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"command": ("python", "train.py"), "arguments": ("--lr",)}, "--entrypoint python train:1 train.py --lr"),
        ({"arguments": ("--lr", "0.1")}, "train:1 --lr 0.1"),
        ({"environment": {"API_KEY": "hunter2"}}, "--env API_KEY train:1"),
        ({"mounts": [Mount(Path("/runs/c"), "/code", is_read_only=True)]}, "--volume /runs/c:/code:ro train:1"),
        ({"workdir": "/app"}, "--workdir /app train:1"),
        (
            {"limits": {"memory": "1Gi", "cpu": "500m"}},
            "--memory 1073741824 --memory-swap 1073741824 --cpus 0.5 train:1",
        ),
        ({"gpus": ("0", "2")}, """--gpus '"device=0,2"' train:1"""),
    ],
)
def test_what_docker_is_told(changes: Mapping[str, Any], words: str) -> None:
    assert _build("docker", **changes) == f"docker run --name podtune-u1 --user {os.getuid()}:{os.getgid()} {words}"


@pytest.mark.parametrize(("user", "words"), [(1000, "--userns keep-id"), (0, "--user 0:0")])
def test_podman_has_words_of_its_own(user: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setattr(os, "getgid", lambda: user)
    devices = "--device nvidia.com/gpu=0 --device nvidia.com/gpu=2"
    assert _build("podman", gpus=("0", "2")) == f"podman run --name podtune-u1 {words} {devices} train:1"


@pytest.mark.parametrize(
    ("engine", "machine", "message"),
    [
        ("lxc", {}, "--container lxc: is no engine that is known; write docker or podman"),
        ("podman", {"PATH": "/nowhere"}, "--container podman: it is not on PATH; install it, or leave out --container"),
        ("docker", {"DAEMON": "1"}, "--container docker: it says nothing; start it, or leave out --container"),
    ],
)
def test_an_engine_that_isnt_there_is_told(
    engine: str, machine: dict[str, str], message: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**environ, **machine}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(CliError, match=message):
        find_engine(engine, os.environ)


def test_an_image_is_pulled_before_anything_starts(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED", environ["ASKED"])
    engine = find_engine("docker", environ)
    engine.fetch_image("here:1")
    engine.fetch_image("elsewhere:1")
    asked = (tmp_path / "asked").read_text()
    assert "pull here:1" not in asked
    assert "pull elsewhere:1" in asked
    with pytest.raises(CliError, match=r"docker pull nowhere:1: nowhere:1: not found; correct the image"):
        engine.fetch_image("nowhere:1")


def test_a_trial_runs_in_its_image(tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKED", environ["ASKED"])
    report = 'echo "{\\"score\\": $PODTUNE_PARAM_x, \\"seen\\": $DATA}" >> "$PODTUNE_DIR/results.jsonl"'
    manifest = make_manifest(report, trials=1)
    manifest["spec"]["trialTemplate"]["spec"]["containers"][0] |= {
        "image": "here:1",
        "env": [{"name": "DATA", "value": "4321"}],
    }
    run, _ = start_run("tiny", manifest, environ=environ, directory=tmp_path / "run", workdir=tmp_path, engine="docker")
    follow(run)
    (trial,) = run.progress.trials.values()
    assert (trial.state, trial.status.last_result["seen"]) == (TrialState.TERMINATED, "4321")
    asked = (tmp_path / "asked").read_text().splitlines()
    started = next(line for line in asked if line.startswith("run "))
    name = started.split()[2]
    assert f"--volume {tmp_path}/run/attempts/tiny-0-1/shared:/podtune" in started
    assert started.count(":/podtune ") == 1, "the agent's own volume is mounted once"
    assert f"--workdir {tmp_path}" in started
    assert "--env DATA " in started, "its value is nobody's business who lists processes"
    assert f"rm --force {name}" in asked
    resume_run(tmp_path / "run", environ=environ).close()
    with pytest.raises(CliError, match="--container docker: it is not on PATH"):
        resume_run(tmp_path / "run", environ={"PATH": "/nowhere"})


def test_a_container_that_is_out_of_memory_says_so(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED", environ["ASKED"])
    client = ChildProcess(("/bin/sh", "-c", "exit 137"), {}, tmp_path, tmp_path / "output.log")
    process = ContainerProcess(client, find_engine("docker", environ), "podtune-u1")
    assert process.wait(PATIENCE)
    assert (process.exit_code, process.end_reason) == (137, "Error")
    (tmp_path / "asked.oom").write_text("true\n")
    assert process.end_reason == "OOMKilled"


def test_a_question_that_is_not_answered_is_no_endless_wait() -> None:
    def hang(*words: Any, timeout: float, **_: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(words, timeout)

    with pytest.raises(CliError, match=r"no answer within 30 s; start it"):
        ContainerEngine("docker", "docker", hang).check()


def test_a_run_is_not_made_where_its_image_cant_be_had(
    tmp_path: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASKED", environ["ASKED"])
    manifest = json.loads(json.dumps(make_manifest()).replace("train:1", "nowhere:1"))
    with pytest.raises(CliError, match="not found"):
        start_run("tiny", manifest, environ=environ, directory=tmp_path / "run", engine="docker")
    assert not (tmp_path / "run").exists()
