"""What the page on planning and simulating shows is what the commands print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from podtune.cli import main as cli

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to" / "plan-and-simulate.md"
BLOCK = re.compile(r"^```console\n\$ podtune (?P<command>.*)\n(?P<output>(?:(?!```).*\n)*)```$", re.MULTILINE)
BROKEN = """
apiVersion: podtune.dev/v1alpha1
kind: Experiment
metadata: {name: broken}
spec:
  objective: {metric: loss, mode: min}
  parameters:
  - {name: rate, float: {min: 0.1, max: 0.01}}
  search: {algorithm: random}
  scheduler: {asha: {maxTime: 0}}
  trialTemplate: {spec: {containers: [{name: trial, image: registry.example/train:1}]}}
"""


def commands() -> Iterator[tuple[str, str]]:
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        yield match["command"], match["output"]


@pytest.mark.parametrize(("command", "output"), list(commands()), ids=[command for command, _ in commands()])
def test_the_page_shows_what_the_command_prints(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    code = cli.main(shlex.split(command))
    printed = capsys.readouterr()
    assert code == (1 if "broken" in command else 0)
    lines = (printed.out + printed.err).splitlines()
    assert [line.rstrip() for line in lines] == output.splitlines()


def test_every_command_of_the_page_is_run() -> None:
    assert len(list(commands())) == PAGE.read_text(encoding="utf-8").count("$ podtune")
