"""MLflow's own client with the agent as its tracking server; the script is run as it is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from podtune.agent.endpoint.server import Endpoint
from podtune.agent.event_log import EventLog
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import Settings

SCRIPT = Path(__file__).with_name("mlflow_script.py")
REQUIREMENTS = Path("requirements/mlflow.txt").resolve()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_script_that_logs_to_mlflow_reports_by_it(environ: dict[str, str], tmp_path: Path) -> None:
    settings = Settings.from_environ(environ | {"PODTUNE_SOURCES": "mlflow"})
    prepare_directory(settings.directory)
    log = io.StringIO()
    endpoint = Endpoint(settings, EventLog(lambda: 1.0, stream=log), port=0)
    endpoint.start()
    uv = Path(sys.executable).with_name("uv")
    command: list[str | Path] = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += ["--with-requirements", REQUIREMENTS, "python", SCRIPT]
    variables = {"MLFLOW_TRACKING_URI": endpoint.address, "MLFLOW_TRACKING_TOKEN": settings.endpoint_token}
    try:
        ran = subprocess.run(
            command, env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True, timeout=540, check=False
        )
    finally:
        endpoint.close()
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "3 runs"
    lines = (settings.directory.root / "results.jsonl").read_text().splitlines()
    results = [json.loads(line) for line in lines]
    by_hand = [(result["step"], result["accuracy"], round(result["loss"], 3)) for result in results[:4]]
    assert by_hand == [(0, 0.0, 1.0), (1, 0.25, 0.5), (2, 0.5, 0.333), (3, 0.9, 0.1)]
    (autologged,) = results[4:]
    assert autologged["step"] == 10
    assert autologged["accuracy"] > 0.9
    assert autologged["training_accuracy_score"] > 0.9
    assert "error" not in log.getvalue()
