import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.storage.checkpoint import manifest as manifests
from podtune.storage.checkpoint.manifest import (
    CheckpointManifest,
    InvalidManifest,
    ManifestFile,
    check_paths,
    digest_of,
    digest_of_chunks,
    parse_manifest,
)

HASH = "0" * 64
NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/"), min_size=1, max_size=20)
PATHS = st.lists(st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join))


def manifest(*paths: str, **changes: Any) -> CheckpointManifest:
    fields: dict[str, Any] = {
        "attempt": "pod-1",
        "step": 9,
        "iteration": 9,
        "metric": "0.5",
        "created": "2026-01-01T00:00:00+00:00",
    }
    fields["time_total"] = 81.5
    fields["files"] = tuple(ManifestFile(path, 1, HASH) for path in paths)
    return CheckpointManifest(**(fields | changes))


def test_so_many_files_are_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_FILES", 3)
    assert len(parse_manifest(manifest("a", "b", "c").to_bytes()).files) == 3
    with pytest.raises(InvalidManifest, match="files is not a list of at most 3"):
        parse_manifest(manifest("a", "b", "c", "d").to_bytes())


@given(PATHS)
def test_a_manifest_comes_back_as_it_was_or_is_refused(paths: list[str]) -> None:
    whole = manifest(*paths)
    try:
        check_paths(paths)
    except InvalidManifest:
        with pytest.raises(InvalidManifest):
            parse_manifest(whole.to_bytes())
    else:
        assert parse_manifest(whole.to_bytes()) == whole


CHUNKS = ("1" * 64, "2" * 64)
IN_CHUNKS = ManifestFile("a", 15, digest_of_chunks(CHUNKS), 10, CHUNKS)


@pytest.mark.parametrize(
    ("file", "version"),
    [
        (ManifestFile("a", 1, HASH), 1),
        (IN_CHUNKS, 2),
        (ManifestFile("a", 1, HASH, object="pod-1/9/packs/0-0", offset=7), 2),
        (replace(IN_CHUNKS, split=True), 3),
        (replace(IN_CHUNKS, object="pod-1/9/data/a", split=True), 3),
    ],
)
def test_a_manifest_is_written_in_the_first_version_that_can_say_it(file: ManifestFile, version: int) -> None:
    whole = manifest(files=(ManifestFile("z", 1, HASH), file))
    assert json.loads(whole.to_bytes())["version"] == version
    assert parse_manifest(whole.to_bytes()) == whole


def test_one_of_an_earlier_release_took_no_time() -> None:
    body = json.loads(manifest("a").to_bytes())
    del body["time_total_s"]
    assert parse_manifest(json.dumps(body).encode()) == manifest("a", time_total=0.0)


def test_one_says_what_its_checkpoint_was_taken_with_unless_that_is_not_known() -> None:
    whole = manifest("a", configuration="c" * 64)
    assert json.loads(whole.to_bytes())["configuration"] == "c" * 64
    assert parse_manifest(whole.to_bytes()) == whole
    assert "configuration" not in json.loads(manifest("a").to_bytes())
    with pytest.raises(InvalidManifest, match="configuration"):
        parse_manifest(json.dumps(json.loads(whole.to_bytes()) | {"configuration": 1}).encode())


def test_the_digest_is_that_of_the_stored_bytes() -> None:
    assert digest_of(manifest("a").to_bytes()) == digest_of(manifest("a").to_bytes())
    assert digest_of(manifest("a").to_bytes()) != digest_of(manifest("a", step=10).to_bytes())
    assert digest_of(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/", "./a", ".", "..", "a\0b", "a\nb", "x" * 600, "\ud800"]
)
def test_a_path_can_not_lead_anywhere_else(path: str) -> None:
    with pytest.raises(InvalidManifest, match="path"):
        check_paths([path])


@pytest.mark.parametrize("paths", [["a", "a"], ["a", "a/b"], ["a/b/c", "a/b", "x"]])
def test_paths_can_not_clash(paths: list[str]) -> None:
    with pytest.raises(InvalidManifest, match=r"twice|below a file"):
        check_paths(paths)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 4}, "version"),
        ({"version": True}, "version"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "parts": [HASH], "partSize": 9}]}, "do not go together"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "parts": 1, "partSize": 9}]}, "parts is not a list"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "object": "../x", "offset": 0}]}, "not a plain path"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "object": "x", "offset": -1}]}, "offset"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "split": True}]}, "without parts is split"),
        ({"files": [{"path": "a", "size": 9, "sha256": HASH, "split": 1}]}, "split is not a truth value"),
        ({"files": None}, "files"),
        ({"files": [1]}, "files"),
        ({"files": [{"path": "a", "size": -1, "sha256": HASH}]}, "size"),
        ({"files": [{"path": "a", "size": 1, "sha256": "no"}]}, "sha256"),
        ({"step": True}, "step"),
        ({"created": 1}, "created"),
        *[({"time_total_s": value}, "time_total_s") for value in ("1", -1, True, math.nan, math.inf, 10**400)],
    ],
)
def test_a_bad_field_is_named(change: dict[str, object], said: str) -> None:
    body = json.loads(manifest("a").to_bytes()) | change
    with pytest.raises(InvalidManifest, match=said):
        parse_manifest(json.dumps(body).encode())


@given(st.binary(max_size=100))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    with pytest.raises(InvalidManifest):
        parse_manifest(data)
