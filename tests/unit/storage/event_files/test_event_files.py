"""Event files, read back by their formats' definitions; the long test has TensorBoard read them."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from podtune.storage.event_files.checksums import compute_crc32c
from podtune.storage.event_files.events import encode_scalars, encode_version, format_file_name
from podtune.storage.event_files.hparams import (
    Hyperparameter,
    HyperparameterType,
    SessionStatus,
    encode_experiment_summary,
    encode_session_end,
    encode_session_start,
)
from tests.unit.storage.event_files.reading import read_events, read_fields

REQUIREMENTS = Path("requirements/tensorboard.txt").resolve()
LONGEST = 540.0
PARAMETERS = {"lr": 0.0, "layers": 3, "activation": "rélu", "nested": True, "sizes": [1, 2]}


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
)
def test_the_checksum_is_that_of_rfc_3720(data: bytes, checksum: int) -> None:
    assert compute_crc32c(data) == checksum


def test_a_result_is_an_event_with_its_numbers() -> None:
    metrics: dict[str, float | str] = {
        "loss": 0.5,
        "epoch": 3,
        "note": "x",
        "ok": True,
        "huge": 1e300,
        "whole": 10**400,
        "bad": math.nan,
    }
    data = encode_version(7.5) + encode_scalars(8.25, 1 << 40, metrics)
    first, second = read_events(data)
    assert (first.version, first.time) == ("brain.Event:2", 7.5)
    assert (second.time, second.step) == (8.25, 1 << 40)
    assert math.isnan(second.scalars.pop("bad"))
    assert second.scalars == {"loss": 0.5, "epoch": 3.0, "huge": math.inf, "whole": math.inf}
    assert encode_scalars(8.0, 1, {"note": "no number"}) == b""


def test_names_of_files_sort_by_time() -> None:
    names = [format_file_name(time) for time in (0.0, 9.0, 1_800_000_000.5)]
    assert names == sorted(names)


def test_a_session_tells_each_parameter_in_its_own_type() -> None:
    (event,) = read_events(encode_session_start(9.5, PARAMETERS, "digits-3"))
    (session,) = read_fields(event.plugin_data[0])[3]
    told = read_fields(session)
    values = {}
    for entry in told[1]:
        name, value = read_fields(entry)[1][0].decode(), read_fields(read_fields(entry)[2][0])
        values[name] = dict(value)
    assert values == {
        "lr": {2: [0.0]},
        "layers": {2: [3.0]},
        "activation": {3: ["rélu".encode()]},
        "nested": {4: [1]},
        "sizes": {3: [b"[1, 2]"]},
    }
    assert (told[4], told[5]) == ([b"digits-3"], [9.5])


READER = """
import json, sys
from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata
runs = EventMultiplexer().AddRunsFromDirectory(sys.argv[1]).Reload()
found = {}
for run, tags in runs.Runs().items():
    listed = runs.PluginRunToTagToContent("hparams").get(run, {})
    told = {tag: runs.SummaryMetadata(run, tag).plugin_data for tag in listed}
    found[run] = {
        "scalars": {
            tag: [(event.step, event.tensor_proto.float_val[0]) for event in runs.Tensors(run, tag)]
            for tag in runs.PluginRunToTagToContent("scalars").get(run, {})
        },
        "sessions": {
            tag: str(metadata._parse_plugin_data_as(data.content, {
                "_hparams_/experiment": "experiment",
                "_hparams_/session_start_info": "session_start_info",
                "_hparams_/session_end_info": "session_end_info",
            }[tag])) for tag, data in told.items()
        },
    }
print(json.dumps(found))
"""


def run_tensorboard(directory: Path) -> Any:
    """What TensorBoard itself reads in a directory: by run, its scalars and what HParams is told."""
    command: list[str | Path] = [Path(sys.executable).with_name("uv"), "run", "--quiet", "--no-project", "--isolated"]
    command += ["--python", sys.executable, "--with-requirements", REQUIREMENTS, "python", "-c", READER, directory]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.long
@pytest.mark.timeout(LONGEST + 60)
def test_tensorboard_reads_them(tmp_path: Path) -> None:
    listed = [
        Hyperparameter("lr", HyperparameterType.NUMBER, interval=(0.0, 1.0)),
        Hyperparameter("activation", HyperparameterType.STRING, choices=("rélu", "tanh")),
    ]
    top = encode_version(1.0) + encode_experiment_summary(1.0, listed, ["loss"])
    (tmp_path / format_file_name(1.0)).write_bytes(top)
    folder = tmp_path / "digits-3"
    folder.mkdir()
    begin = encode_version(2.0) + encode_session_start(2.0, PARAMETERS, "digits-3")
    (folder / format_file_name(2.0)).write_bytes(begin + encode_scalars(3.0, 1, {"loss": 0.5}))
    rest = encode_version(4.0) + encode_scalars(4.0, 2, {"loss": 0.25}) + encode_session_end(5.0, SessionStatus.SUCCESS)
    (folder / format_file_name(4.0)).write_bytes(rest)
    found = run_tensorboard(tmp_path)
    assert found["digits-3"]["scalars"] == {"loss": [[1, 0.5], [2, 0.25]]}
    sessions = found["digits-3"]["sessions"]
    assert "STATUS_SUCCESS" in sessions["_hparams_/session_end_info"]
    assert 'key: "layers"' in sessions["_hparams_/session_start_info"]
    assert "domain_interval" in found["."]["sessions"]["_hparams_/experiment"]
    assert "tanh" in found["."]["sessions"]["_hparams_/experiment"]
