"""README: what a newcomer copies from it runs on their machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.fenced_blocks import ROOT, find_blocks
from podtune.cli.main import main


def test_the_script_of_the_readme_is_tuned_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = list(find_blocks(ROOT / "README.md"))
    for language, name in (("python", "train.py"), ("yaml", "experiment.yaml")):
        first = next(block for block in blocks if block.language == language)
        Path(name).write_text(first.text.replace("maxTrials: 20", "maxTrials: 3"), encoding="utf-8")
    (typed,) = (block for block in blocks if block.run_by == "tests/unit/cli/commands/experiments/test_readme_run.py")
    for command in typed.commands():
        assert main(command.split()[1:]) == 0
    told = capsys.readouterr()
    assert "first Complete: 3/3 trials done" in told.out
    assert "\naccuracy 0." in told.out
