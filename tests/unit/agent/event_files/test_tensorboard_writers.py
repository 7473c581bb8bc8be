"""TensorBoard's own writers and reader, beside those of the agent and of its tests."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from podtune.agent.event_files.records import RecordFile
from podtune.agent.event_files.scalars import ScalarParser
from podtune.agent.metric_files.file_kinds import EVENT_FILE_KIND
from podtune.agent.metric_files.file_search import MetricFileSearch
from podtune.storage.directory import Directory

ROOT = Path(__file__).parents[4]
REQUIREMENTS = ROOT / "requirements" / "event-files.txt"
LONGEST = 540.0
"""Seconds that installing the packages and running a script may take."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(LONGEST + 60)]

Values = list[tuple[int, float]]


def run_script(name: str, *arguments: Path) -> str:
    command: list[str | Path] = [Path(sys.executable).with_name("uv"), "run", "--quiet", "--no-project", "--isolated"]
    command += ["--python", sys.executable, "--with-requirements", REQUIREMENTS, "python"]
    command += [Path(__file__).with_name(name), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()[-1]


def read_all(directory: Path) -> dict[str, Values]:
    """All scalars that the agent finds, by their names below a directory."""
    found: defaultdict[str, Values] = defaultdict(list)
    problems: list[OSError] = []
    for file in MetricFileSearch(EVENT_FILE_KIND, problems.append).find(Directory(directory), ()):
        parser = ScalarParser()
        with file.directory.open_file(file.name) as descriptor:
            for record in RecordFile(descriptor).read():
                event = parser.parse(record.data)
                assert event is None or record.is_intact
                for scalar in event.scalars if event else ():
                    found["/".join((*file.run, scalar.tag))].append((event.step if event else 0, scalar.value))
    assert not problems
    return dict(found)


def to_bits(values: Values) -> list[tuple[int, str]]:
    """Values as the files have them, of 32 bits."""
    return [(step, "nan" if math.isnan(value) else struct.pack("<f", value).hex()) for step, value in values]


def test_agent_and_tensorboard_find_the_same_in_what_either_has_written(tmp_path: Path) -> None:
    own = tmp_path / "own"
    program = ROOT / "e2e" / "programs" / "reporting" / "event_files.py"
    subprocess.run([sys.executable, program, own], env=os.environ | {"BASE": "0.7"}, check=True)
    expected = json.loads(run_script("tensorboard_script.py", tmp_path / "theirs", own))
    found = read_all(tmp_path)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert to_bits(found[name]) == to_bits(values), name
    assert len(found["theirs/torch/loss/val"]) == 300
    assert found["theirs/torch/loss/val"][9] == (9, 0.1)
    assert len(found["theirs/keras/validation/epoch_loss"]) == 20
    assert found["own/validation/epoch_value"] == [(0, 0.2), (1, 0.36666667), (2, 0.45)]
