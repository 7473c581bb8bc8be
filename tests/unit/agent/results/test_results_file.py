import contextlib
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.results.results_file import ResultsFile
from podtune.agent.state.result_line import BadLine, LineSplitter, parse_line
from podtune.protocol.messages import MAX_METRICS, MAX_TEXT, MetricValue, Result, encode_result, parse_result
from podtune.storage.directory import Directory


@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(0, 40)))
def test_lines_are_the_same_however_the_bytes_are_cut(lines: list[bytes], cuts: list[int]) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    data = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(max_line=8)
    found = []
    for cut in [*sorted(cuts), len(data)]:
        piece, data = data[:cut], data[cut:]
        found += splitter.feed(piece)
    found += splitter.feed(data)
    assert found == [line for line in lines if line.strip() and len(line) <= 8]
    assert splitter.oversized == sum(len(line) > 8 for line in lines)
    assert splitter.finish() == []


def test_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    file = ResultsFile(Directory(tmp_path))
    assert file.read_lines() == []
    path.write_bytes(b'{"a": 1}\n{"a"')
    assert file.read_lines() == [b'{"a": 1}']
    with path.open("ab") as stream:
        stream.write(b": 2}\n")
    assert file.read_lines() == [b'{"a": 2}']
    assert file.read_lines() == []


def test_a_half_line_is_given_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"one\ntwo")
    file = ResultsFile(Directory(tmp_path))
    assert file.read_lines() + file.finish() == [b"one", b"two"]


def test_a_file_that_was_replaced_or_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b"first line\n")
    file = ResultsFile(Directory(tmp_path))
    assert file.read_lines() == [b"first line"]
    path.write_bytes(b"second\n")
    assert file.read_lines() == [b"second"]
    (tmp_path / "new").write_bytes(b"a third, in another file\n")
    (tmp_path / "new").replace(path)
    assert file.read_lines() == [b"a third, in another file"]


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_file_is_an_error_and_no_trap(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "results.jsonl"
    if kind == "link":
        (tmp_path / "target").write_bytes(b"secret\n")
        path.symlink_to(tmp_path / "target")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"results.jsonl"):
        ResultsFile(Directory(tmp_path)).read_lines()


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ({"val": {"loss": 1, "deep": {"er": 2}}, "n": None}, {"val/loss": 1, "val/deep/er": 2}),
        ({"ok": True, "name": "x"}, {"ok": True, "name": "x"}),
        ({"list": [1], "a": 1}, {"a": 1}),
        ({"big": 10**30, "a": 1}, {"a": 1}),
    ],
)
def test_values_are_made_flat_and_unusable_ones_left_out(
    line: dict[str, object], metrics: dict[str, MetricValue]
) -> None:
    parsed = parse_line(json.dumps(line).encode(), "accuracy")
    assert parsed.metrics == metrics


def test_nan_is_a_value() -> None:
    loss = parse_line(b'{"loss": NaN}', "loss").metrics["loss"]
    assert isinstance(loss, float)
    assert math.isnan(loss)


def test_a_long_text_is_cut() -> None:
    parsed = parse_line(json.dumps({"text": "x" * 1000}).encode(), "accuracy")
    assert len(str(parsed.metrics["text"])) == MAX_TEXT
    assert parsed.problems == ("text was cut to 256 characters",)


def test_of_too_many_values_the_objective_stays() -> None:
    line = {f"m{n}": n for n in range(200)} | {"accuracy": 0.5}
    parsed = parse_line(json.dumps(line).encode(), "accuracy")
    assert len(parsed.metrics) < MAX_METRICS
    assert parsed.metrics["accuracy"] == 0.5


def test_a_line_may_only_say_that_the_program_is_done() -> None:
    parsed = parse_line(b'{"_done": true}', "accuracy")
    assert parsed.done
    assert not parsed.is_result


@pytest.mark.parametrize("name", ["../x", "", ".", "..", "a/b", "x" * 300, "é" * 200, "\ud800", 7, "a\0b"])
def test_a_checkpoint_can_not_be_named_out_of_its_directory(name: int | str) -> None:
    parsed = parse_line(json.dumps({"a": 1, "_checkpoint": name}).encode(), "accuracy")
    assert parsed.checkpoint is None
    assert "_checkpoint" in parsed.problems[0]


@pytest.mark.parametrize("line", [b"", b"x", b"[1]", b"1", b"{}", b'{"a": []}', b"\xff", b"[" * 100_000, b"9" * 5000])
def test_other_lines_are_bad(line: bytes) -> None:
    with pytest.raises(BadLine):
        parse_line(line, "accuracy")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=140), inner, max_size=5),
    max_leaves=30,
)


@given(st.dictionaries(st.text(max_size=20), JSON, max_size=80))
def test_whatever_a_program_writes_the_operator_can_read_what_is_made_of_it(body: dict[str, object]) -> None:
    try:
        line = parse_line(json.dumps(body).encode(), "accuracy")
    except BadLine:
        return
    result = Result(seq=1, time=0.0, metrics={**line.metrics, "training_iteration": 1}, step=1)
    assert parse_result(json.loads(encode_result(result))).step == 1


@given(st.binary(max_size=60))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    with contextlib.suppress(BadLine):
        parse_line(data, "accuracy")
