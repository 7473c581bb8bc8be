"""MLflow's own client, and transformers' own callback, at the agent's endpoint; the scripts are run as they are."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podtune.agent.endpoint.server import Endpoint
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import Settings
from podtune.cluster.pods.result_sources import make_source_variables
from podtune.local.program import expand

REQUIREMENTS = Path("requirements/unchanged-scripts.txt").resolve()
LONGEST = 540.0
"""Seconds that installing the packages and running a script may take."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(LONGEST + 60)]


def run_script(name: str, environ: Mapping[str, str], source: str, objective: str) -> list[dict[str, Any]]:
    """Runs a script as in a pod, and returns its results."""
    settings = Settings.from_environ({**environ, "PODTUNE_SOURCES": source, "PODTUNE_OBJECTIVE_METRIC": objective})
    prepare_directory(settings.directory)
    log = io.StringIO()
    endpoint = Endpoint(settings, EventLog(lambda: 1.0, stream=log), port=0)
    endpoint.start()
    places = {"PODTUNE_DIR": environ["PODTUNE_DIR"], "PODTUNE_ENDPOINT": endpoint.address}
    variables = {
        entry["name"]: expand(entry["value"], places) if "value" in entry else settings.endpoint_token
        for entry in make_source_variables(settings.namespace, settings.trial, "0a" * 16, [source])
    }
    command: list[str | Path] = [Path(sys.executable).with_name("uv"), "run", "--quiet", "--no-project", "--isolated"]
    command += ["--python", sys.executable, "--with-requirements", REQUIREMENTS, "python"]
    command += [Path(__file__).with_name(name)]
    try:
        ran = subprocess.run(
            command,
            env=os.environ | variables,
            cwd=settings.directory.root.parent,
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
    finally:
        endpoint.close()
    assert ran.returncode == 0, ran.stderr
    assert log.getvalue() == "", "nothing was refused"
    return [json.loads(line) for line in (settings.directory.root / "results.jsonl").read_text().splitlines()]


def test_a_script_that_logs_to_mlflow_reports_by_it(environ: dict[str, str]) -> None:
    results = run_script("mlflow_script.py", environ, "mlflow", "accuracy")
    by_hand = [(result["step"], result["accuracy"], round(result["loss"], 3)) for result in results[:4]]
    assert by_hand == [(0, 0.0, 1.0), (1, 0.25, 0.5), (2, 0.5, 0.333), (3, 0.9, 0.1)]
    (autologged,) = results[4:]
    assert autologged["step"] == 10
    assert autologged["accuracy"] > 0.9
    assert autologged["training_accuracy_score"] > 0.9


def test_the_callback_of_transformers_reports_each_evaluation(environ: dict[str, str]) -> None:
    results = run_script("trainer_script.py", environ, "huggingFace", "eval_loss")
    found = [(result["current_step"], result["eval_loss"], result["loss"]) for result in results]
    assert found == [(11, 0.1, 0.2), (20, 0.05, 0.1)]
    assert results[1]["train_loss"] == 0.3
