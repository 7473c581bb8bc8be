"""The pages on pausing and retrying say what the command line and the models do."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from podtune.api.resources.resume import Resume
from podtune.api.tuning.prior_knowledge import InitialConfiguration
from podtune.cli.command_table import make_program

GUIDES = Path(__file__).parents[3] / "docs" / "how-to"
PAGE = "".join(
    (GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("pause-stop-resume", "resume-and-retry")
)
BLOCKS = [yaml.safe_load(block.split("```")[0]) for block in PAGE.split("```yaml\n")[1:]]


@pytest.mark.parametrize("command", ["pause", "resume", "stop"])
def test_its_commands_are_there(command: str) -> None:
    assert f"kubectl podtune {command} " in PAGE
    assert CliRunner().invoke(make_program([command]), [command, "--help"]).exit_code == 0


def test_its_options_are_there() -> None:
    environment = {"COLUMNS": "200", "TERM": "dumb"}
    shown = CliRunner().invoke(make_program(["resume"]), ["resume", "--help"], env=environment).output
    for option in ("--set", "--unfinished", "--errored", "--finished"):
        assert option in PAGE
        assert option in shown


def test_its_manifests_are_valid() -> None:
    resume = next(block["spec"]["resume"] for block in BLOCKS if "resume" in block.get("spec", {}))
    assert Resume.model_validate(resume) == Resume(id="2"), "the defaults are what it shows"
    initial = next(block["search"]["initial"] for block in BLOCKS if "search" in block)
    assert InitialConfiguration.model_validate(initial[0]).restore_from is not None
