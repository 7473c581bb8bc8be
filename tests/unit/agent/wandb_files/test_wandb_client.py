"""The client of Weights & Biases itself, offline: beside the agent's reader, and in whole experiments."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.agent.event_log import EventLog
from podtune.agent.metric_files.file_kinds import WANDB_FILE_KIND
from podtune.agent.metric_files.metric_file_reader import MetricFileReader
from podtune.agent.results.result_reader import prepare_directory
from podtune.cluster.pods.result_sources import WANDB_RUNS, make_wandb_variables
from podtune.local.program import expand
from podtune.storage.directory import Directory
from tests.unit.local.experiments import follow, make_manifest, make_run

REQUIREMENTS = Path("requirements/wandb.txt").resolve()
HERE = Path(__file__).parent
LONGEST = 540.0
"""Seconds that installing the package and running a script may take."""
PROMPT = 10.0
"""Seconds within which a value is to be read that was logged."""
STOPPED = """
import sys, time, wandb
with wandb.init() as run:
    for epoch in range(1, 10_000):
        run.log({"epoch": epoch, "score": float(sys.argv[1])})
        time.sleep(0.2)
"""
"""Ends by itself after half an hour."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(LONGEST + 60)]


def build_command(*words: str | Path) -> list[str]:
    """Runs Python with the package."""
    command = [Path(sys.executable).with_name("uv"), "run", "--quiet", "--no-project", "--isolated"]
    command += ["--python", sys.executable, "--with-requirements", REQUIREMENTS, "python", *words]
    return list(map(str, command))


class BesideAgent:
    """A directory that a script shares with the agent."""

    def __init__(self, path: Path, objective: str) -> None:
        path.mkdir()
        self.path = path
        self._log = io.StringIO()
        prepare_directory(Directory(path))
        log = EventLog(lambda: 1.0, stream=self._log)
        self.reader = MetricFileReader(WANDB_FILE_KIND, WANDB_RUNS.split("/"), Directory(path), objective, log)

    @property
    def environment(self) -> dict[str, str]:
        """The script's, as in a pod."""
        places = {"PODTUNE_DIR": str(self.path)}
        own = {entry["name"]: expand(entry["value"], places) for entry in make_wandb_variables(is_offline=True)}
        return {**os.environ, **own, "WANDB_SILENT": "true"}

    def read_results(self) -> list[dict[str, Any]]:
        assert self._log.getvalue() == ""
        return [json.loads(line) for line in (self.path / "results.jsonl").read_text().splitlines() if line]


def test_the_agent_finds_what_the_client_has_written_and_finds_it_soon(tmp_path: Path) -> None:
    agent, seen = BesideAgent(tmp_path / "shared", "loss"), tmp_path / "seen"
    command = build_command(HERE / "wandb_script.py", seen)
    with subprocess.Popen(
        command, env=agent.environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        wait_for_first_row(agent, script)
        first = agent.read_results()
        seen.touch()
        output, errors = script.communicate(timeout=LONGEST)
    assert script.returncode == 0, errors
    agent.reader.finish()
    assert [(result["loss"], result["step"]) for result in first] == [(1.0, 0)]
    check_all(agent.read_results(), json.loads(output.splitlines()[-1]))


def wait_for_first_row(agent: BesideAgent, script: subprocess.Popen[str]) -> None:
    """Looks as often as the agent does, from the moment on that the run's file is there."""
    deadline = time.monotonic() + LONGEST
    while not list(agent.path.glob("wandb/*/run-*.wandb")):
        assert script.poll() is None, script.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    deadline = time.monotonic() + PROMPT
    while not agent.read_results():
        assert time.monotonic() < deadline, "the client keeps its values to itself"
        time.sleep(0.1)
        agent.reader.look()


def check_all(results: list[dict[str, Any]], logged: list[dict[str, Any]]) -> None:
    """Compares the results with the rows that were logged, each of which has the objective."""
    for result, row in zip(results, logged, strict=True):
        wanted = dict(flatten(row))
        assert str({name: float(result[name]) for name in wanted}) == str(wanted), "and NaN is NaN"
    names = {name for result in results for name in result if not name.startswith("_")}
    assert names == {"step", "loss", "epoch", "val.acc", "val.top.5", "lr", "bytes", "train/loss"}


def flatten(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a row, and of what is nested in it."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + name, float(value)


def test_a_scheduler_stops_a_script_that_logs_to_it(tmp_path: Path) -> None:
    manifest = make_manifest(
        trials=1,
        results={"wandb": {}},
        stop={"trial": [{"iterations": 5}]},
    )
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    container["command"] = build_command("-c", STOPPED, "$(PODTUNE_PARAM_x)")
    run = make_run(manifest, tmp_path)
    follow(run)
    (trial,) = run.progress.trials.values()
    assert trial.status.state == "TERMINATED"
    assert float(trial.status.last_result["score"]) == float(trial.proposed["x"])
    assert int(trial.status.last_result["epoch"]) < 100
