from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.cli import main as cli
from podtune.cli.commands.checks.detect import render_report
from podtune.cli.errors import ExitStatus
from podtune.local.detection.detected_sources import DetectedSource, make_detected_source
from podtune.local.detection.detection import DetectionReport
from podtune.local.processes import read_start_time
from tests.unit.agent.stub_operator import wait_until
from tests.unit.cli.test_command_table import list_modules_loaded_for

PRINTS = "for e in 1 2 3; do echo epoch=$e loss=0.$e; done"
SETTINGS = {"pattern": r"epoch=(?P<epoch>\d+) loss=(?P<loss>[-+.\w]+)"}


def make_report(*sources: DetectedSource | None, exit_code: int | None = 0) -> DetectionReport:
    return DetectionReport([each for each in sources if each], 12.3, exit_code, interrupted=False, last_line="")


def make_source(field: str, results: Sequence[dict[str, Any]]) -> DetectedSource | None:
    return make_detected_source(field, SETTINGS if field == "stdout" else {}, results, "")


def detect(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["detect", *words])
    return code, *capfd.readouterr()


def test_it_says_what_works_and_what_to_write(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = detect(capfd, "--", "sh", "-c", PRINTS)
    assert code == ExitStatus.DONE
    table, advice, manifest = out.split("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["READ", "FROM", "METRIC", "RESULTS", "FIRST", "LAST"],
        ["results.stdout", "loss", "3", "0.1", "0.3"],
        ["results.stdout", "epoch", "3", "1", "3"],
    ]
    assert "results.stdout looks best" in advice
    assert "timeAttribute: epoch" in advice
    assert yaml.safe_load(manifest) == {"objective": {"metric": "loss", "mode": "min"}, "results": {"stdout": SETTINGS}}
    assert "epoch=1 loss=0.1" in err, "what the script prints is passed on, beside the answer"


def test_programs_get_all_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        code, out, _ = detect(capfd, "-o", form, "--", "sh", "-c", PRINTS)
        facts = read(out)
        assert code == ExitStatus.DONE
        assert (facts["best"], facts["exitCode"]) == ("results.stdout", 0)
        (source,) = facts["sources"]
        assert source["spec"]["results"] == {"stdout": SETTINGS}
        assert source["metrics"][0] == {"name": "loss", "results": 3, "first": 0.1, "last": 0.3}
        assert (source["timeAttribute"], source["modeIsGuess"]) == ("epoch", False)


def test_what_reports_nothing_has_a_code_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = detect(capfd, "--", "sh", "-c", "echo hello")
    assert (code, out) == (ExitStatus.NOTHING_FOUND, "")
    assert re.search("no results found within [0-9]+s; print metrics as name=value", err)
    code, out, err = detect(capfd, "-o", "json", "--metric", "f1", "--", "sh", "-c", PRINTS)
    assert (code, json.loads(out)["sources"]) == (ExitStatus.NOTHING_FOUND, [])
    assert "no f1 found" in err


def test_what_fails_before_it_reports_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = detect(capfd, "--", "sh", "-c", "echo no data >&2; exit 3")
    assert (code, out) == (ExitStatus.FAILED, "")
    assert err.endswith("note: the script has failed with exit code 3: no data\n")
    code, out, err = detect(capfd, "--", "sh", "-c", f"{PRINTS}; exit 3")
    assert code == ExitStatus.DONE, "it has reported before"
    assert "exit code 3" in err


def test_a_script_that_is_not_there_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = detect(capfd, "--", "no-such-script", "--lr", "1")
    assert (code, out) == (ExitStatus.FAILED, "")
    assert err.splitlines()[-1] == (
        "error: no-such-script: No such file or directory; write the command as you run it here"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "Missing argument"), (["--for", "soon", "--", "true"], "--for"), (["-o", "csv", "--", "true"], "csv")],
)
def test_a_wrong_command_line_says_so(capfd: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    code, _, err = detect(capfd, *words)
    assert code == ExitStatus.USAGE
    assert said in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_script_and_shows_what_was_found(tmp_path: Path, number: signal.Signals) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    script = f"{PRINTS}; sleep 600 & echo $$ $! > {tmp_path}/pids; wait"
    with (tmp_path / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "podtune.cli.main", "detect", "--for", "10m", "--", "sh", "-c", script],
            env=os.environ | {"PYTHONPATH": "operator", "TMPDIR": str(place)},
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    try:
        pids = tmp_path / "pids"
        wait_until(lambda: pids.exists() and pids.read_text().strip())
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == ExitStatus.INTERRUPTED
    assert "pattern: epoch=" in out
    wait_until(lambda: not any(read_start_time(int(pid)) for pid in pids.read_text().split()))
    assert list(place.iterdir()) == []


MANY = [
    {"val_accuracy": 0.123456789 * n, "a_metric_with_a_long_name": n / 7, **dict.fromkeys("abcdefgh", n)}
    for n in (1, 2)
]


@pytest.mark.parametrize("width", [60, 200, None])
def test_what_is_shown_fits_the_terminal(width: int | None) -> None:
    report = make_report(make_source("huggingFace", MANY), make_source("stdout", [{"epoch": 1, "elbo": -3.0}]))
    lines = render_report(report, width)
    manifest = lines.index("objective:")
    assert all(len(line) <= (width or 1000) for line in lines[:manifest])
    assert any("2 further metrics" in line for line in lines)
    if width is None:
        assert any(line.split() == ["results.stdout", "elbo", "1", "-3.0", "-3.0"] for line in lines)


def test_a_guess_is_said_to_be_one() -> None:
    report = make_report(make_source("stdout", [{"epoch": 1, "elbo": -3.0}, {"epoch": 2, "elbo": -2.0}]))
    assert "check mode: the name elbo does not tell it" in "\n".join(render_report(report, None))
    assert "check mode" not in "\n".join(render_report(make_report(make_source("mlflow", [{"loss": 1}])), None))


def test_the_help_is_there_without_what_runs_scripts() -> None:
    loaded = list_modules_loaded_for("detect")
    assert not any(module.startswith("podtune.local") for module in loaded)
    assert {"podtune.agent", "yaml", "re2"}.isdisjoint(loaded)
