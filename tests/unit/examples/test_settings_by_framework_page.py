"""Each setting of the page finds what the script prints that it is for, as many results as it reports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from docs.fenced_blocks import DOCS
from e2e.unchanged.table import SCRIPTS, UNCHANGED_SCRIPTS, UnchangedScript
from podtune.agent.results.stdout_results import make_log_parser
from podtune.api.validation import parse_experiment
from podtune.local.program import expand
from podtune.protocol.messages import MetricValue

PAGE = (DOCS / "how-to/settings-by-framework.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PRINTING = [script for script in UNCHANGED_SCRIPTS if "stdout" in script.results]


def run(script: UnchangedScript, value: object, directory: Path) -> list[str]:
    """Runs the script with one value of its parameter, and returns what it prints, and logs."""
    known = {f"PODTUNE_PARAM_{script.parameter}": str(value), "PODTUNE_DIR": str(directory)}
    own = {name: expand(text, known) for name, text in script.env.items()}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [expand(word, known) for word in script.command],
        cwd=SCRIPTS,
        env={**known, **own, "PATH": path, "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=True,
        encoding="utf-8",
    )
    return done.stdout.splitlines()


def find_results(script: UnchangedScript, lines: list[str]) -> list[Mapping[str, MetricValue]]:
    stdout = script.results["stdout"]
    parser = make_log_parser(re.compile(stdout["pattern"]), stdout.get("last", ""))
    found = [result for line in lines for result in parser.take(line)]
    return [dict(result.metrics) for result in [*found, *parser.finish()]]


@pytest.mark.parametrize("script", PRINTING, ids=lambda script: script.name)
def test_the_page_shows_what_a_script_prints_and_the_setting_finds_all_its_results(
    script: UnchangedScript, tmp_path: Path
) -> None:
    outputs = [run(script, value, tmp_path) for value in script.values]
    better, worse = (find_results(script, lines) for lines in outputs)
    assert (len(better), len(worse)) == (script.reported, script.reported)
    metric, sign = script.objective["metric"], 1 if script.objective["mode"] == "max" else -1
    assert max(sign * float(result[metric]) for result in better) > max(sign * float(r[metric]) for r in worse)

    shown = re.search(r"^```text\n(.*?)^```$", SECTIONS[script.heading], re.MULTILINE | re.DOTALL)
    assert shown is not None
    figure = re.compile(r"\d+(\.\d+)?")  # they depend on the machine
    printed = {figure.sub("0", line) for line in outputs[0]}
    assert {figure.sub("0", line) for line in shown[1].splitlines()} <= printed


def test_the_page_has_a_section_for_each_script_with_its_setting() -> None:
    shown = {
        heading: yaml.safe_load(block)
        for heading, text in SECTIONS.items()
        for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    }
    assert shown == {script.heading: {"results": script.results} for script in UNCHANGED_SCRIPTS}
    assert len(UNCHANGED_SCRIPTS) >= 10


@pytest.mark.parametrize("script", UNCHANGED_SCRIPTS, ids=lambda script: script.name)
def test_its_experiment_is_accepted(script: UnchangedScript) -> None:
    parse_experiment(script.build_experiment())
