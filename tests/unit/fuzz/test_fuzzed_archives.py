"""Files that `podtune import` is given: cut off, damaged, or written by somebody with other ideas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podtune.cli import main as cli
from podtune.cli.archives.archive import make_archive, seal
from podtune.cli.client import api_client
from podtune.kube import paths
from tests.unit.cli.cli_fakes import FakeApi
from tests.unit.cluster.objects import experiment_body, trial_body
from tests.unit.fuzz.junk import assert_one_sentence, fuzzed, spoilt

STATUS = {"state": "Running", "trials": {"total": 2}, "best": {"trial": "digits-1", "value": "0.9"}, "conditions": []}
CHECKPOINT = {"step": 3, "uri": "s3://b/e-1/digits-1/a/3", "digest": "sha256:0"}
EXPERIMENT = experiment_body(suspend=True) | {"status": STATUS}
EXPERIMENT["metadata"] |= {"labels": {"team": "vision"}, "annotations": {"example.com/note": "x"}}
WHOLE = make_archive(
    EXPERIMENT,
    [trial_body(0, state="PAUSED", checkpoint=CHECKPOINT), trial_body(1, state="TERMINATED", iteration=4)],
    {"results.jsonl": "{}"},
).to_yaml()
BODY = {key: value for key, value in yaml.safe_load(WHOLE).items() if key != "digest"}
NO_YAML = st.sampled_from(["2024-13-45", "[" * 900, "&a [*a]", "!!python/object:os.system {}", "a: b: c", "9" * 5000])


class WritableApi(FakeApi):
    """A cluster without anything, that takes all it is given."""

    def patch(self, path: str, change: Any) -> Any:
        self.patched.append((path, change))
        return self.objects[path.removesuffix("/status")]


def import_file(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folder: pytest.TempPathFactory,
    content: bytes,
) -> WritableApi | None:
    """Imports; the cluster as it is then, or None where the file was refused before anything was changed."""
    api = WritableApi()
    monkeypatch.setattr(api_client, "open_api", lambda *_: (api, "elsewhere"))
    file: Path = folder.mktemp("archive") / "digits.yaml"
    file.write_bytes(content)
    capsys.readouterr()
    if cli.main(["import", str(file)]) == 0:
        return api
    message = capsys.readouterr().err
    assert message.startswith(f"error: {file}: ")
    assert message.count("\n") == 1
    assert_one_sentence(ValueError(message))
    assert (api.objects, api.patched) == ({}, [])
    return None


def with_metadata(metadata: Any) -> dict[str, Any]:
    return {**BODY, "experiment": {**BODY["experiment"], "metadata": metadata}}


def imported(api: WritableApi) -> list[str]:
    return sorted(api.objects)


ALL = sorted(
    [
        paths.experiment("elsewhere", "digits"),
        *(paths.trial("elsewhere", f"digits-{index}") for index in (0, 1)),
        "/api/v1/namespaces/elsewhere/configmaps/digits-warm-start",
    ]
)


def test_the_whole_file_is_imported(monkeypatch: Any, capsys: Any, tmp_path_factory: Any) -> None:
    api = import_file(monkeypatch, capsys, tmp_path_factory, WHOLE.encode())
    assert api is not None
    assert imported(api) == ALL


@fuzzed
@given(st.integers(0, len(WHOLE.encode()) - 1), st.integers(0, 255) | st.none())
def test_a_file_that_was_cut_off_or_has_a_wrong_byte_is_refused_or_means_the_same(
    monkeypatch: Any, capsys: Any, tmp_path_factory: Any, place: int, byte: int | None
) -> None:
    whole = WHOLE.encode()
    content = whole[:place] if byte is None else whole[:place] + bytes([byte]) + whole[place + 1 :]
    api = import_file(monkeypatch, capsys, tmp_path_factory, content)
    assert api is None or yaml.safe_load(content) == yaml.safe_load(WHOLE)


@fuzzed
@given(
    spoilt(BODY)
    | spoilt(BODY["experiment"]["metadata"]).map(with_metadata)
    | spoilt(BODY["warmStart"]).map(lambda known: {**BODY, "warmStart": known})
)
def test_a_file_that_somebody_has_written_is_imported_whole_or_refused(
    monkeypatch: Any, capsys: Any, tmp_path_factory: Any, body: Any
) -> None:
    content = json.dumps(seal(body)).encode()
    api = import_file(monkeypatch, capsys, tmp_path_factory, content)
    if api is not None:
        written = [path for path in imported(api) if "/trials/" in path]
        assert len(written) == len(body["trials"])


@fuzzed
@given(st.binary(max_size=60) | NO_YAML.map(str.encode))
def test_what_is_no_archive_is_refused(monkeypatch: Any, capsys: Any, tmp_path_factory: Any, content: bytes) -> None:
    assert import_file(monkeypatch, capsys, tmp_path_factory, content) is None
