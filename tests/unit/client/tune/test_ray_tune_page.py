"""The page for those who come from Ray Tune: its program is one that works, and what it names is there."""

import linecache
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.fenced_blocks import DOCS, find_blocks
from podtune.client import tune

PAGE = DOCS / "how-to" / "come-from-ray-tune.md"


@pytest.fixture
def names(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the page's program has defined, as from a file of its own."""
    source = next(block.text for block in find_blocks(PAGE) if block.language == "python")
    file = tmp_path / "program.py"
    file.write_text(source)
    defined: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, str(file), "exec"), defined)
    yield defined
    linecache.checkcache(str(file))


def test_program_of_the_page_makes_the_experiment_that_it_describes(names: dict[str, Any]) -> None:
    spec = names["tuner"].experiment.manifest["spec"]
    assert (spec["search"]["maxTrials"], spec["scheduler"]["asha"]["maxTime"]) == (20, 9)
    assert [parameter["name"] for parameter in spec["parameters"]] == ["lr", "layers"]


def test_domains_and_classes_that_the_page_has_are_there() -> None:
    """Names in the second column, and those in the first that are called the same."""
    rows = [line.split("|")[1:3] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    same = [ray for ray, ours in rows if ours.strip().startswith("the same")]
    named = {name for text in same for name in re.findall(r"`(\w+)(?=`|\()", text)}
    settings = {"max_concurrent_trials", "time_budget_s"}
    assert settings <= set(tune.TuneConfig.__dataclass_fields__)
    assert {"uniform", "ASHAScheduler", "RunConfig"} <= named
    assert [name for name in named - settings if not hasattr(tune, name)] == []
