import contextlib
import json
import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.protocol import messages
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import (
    CheckpointCommit,
    FinalCommit,
    LedgerLine,
    Reply,
    Report,
    Restored,
    Result,
    StoreProblem,
    encode_result,
    parse_final_commit,
    parse_reply,
    parse_report,
    parse_result,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
COUNTS = st.integers(0, (1 << 53) - 1)
VALUES = (
    st.booleans()
    | st.floats(allow_nan=False)
    | st.integers(-messages.MAX_WHOLE_NUMBER + 1, messages.MAX_WHOLE_NUMBER - 1)
    | TEXT.map(lambda text: text[: messages.MAX_TEXT])
)
DIGEST = "sha256:" + "0" * 64
METRICS = st.dictionaries(TEXT.map(lambda text: text[: messages.MAX_KEY]), VALUES, max_size=messages.MAX_METRICS)
RESULTS = st.builds(
    Result,
    seq=st.integers(1, (1 << 53) - 1),
    time=st.floats(allow_nan=False, allow_infinity=False),
    metrics=METRICS,
    step=COUNTS,
    checkpoint=st.booleans(),
)
REFS = st.builds(CheckpointRef, uri=TEXT.map(lambda t: t[:1024]), digest=TEXT.map(lambda t: t[:80]), step=COUNTS)
METRIC = st.none() | st.floats(allow_nan=False)
COMMITS = st.builds(CheckpointCommit, checkpoint=REFS, seq=COUNTS, metric=METRIC)
RESTORED = st.none() | st.builds(
    Restored, checkpoint=st.none() | REFS, metric=METRIC, message=TEXT.map(lambda t: t[:512])
)
PROBLEMS = st.none() | st.builds(
    StoreProblem, reason=TEXT.map(lambda t: t[:64]), message=TEXT.map(lambda t: t[:512]), permanent=st.booleans()
)
ATTEMPTS = TEXT.map(lambda text: text[: messages.MAX_ATTEMPT])
REPORTS = st.builds(
    Report,
    attempt=ATTEMPTS,
    phase=st.sampled_from(["Training", "Draining"]),
    results=st.lists(RESULTS, max_size=4).map(tuple),
    checkpoints=st.lists(COMMITS, max_size=4).map(tuple),
    restored=RESTORED,
    store_problem=PROBLEMS,
    ledger=COUNTS,
)
DECISIONS = st.builds(
    LedgerLine,
    number=COUNTS,
    time=TEXT,
    attempt=COUNTS,
    step=COUNTS,
    action=TEXT,
    message=TEXT.map(lambda t: t[:512]),
    inputs=st.dictionaries(TEXT, TEXT, max_size=4),
)
REPLIES = st.builds(
    Reply,
    acked_seq=COUNTS,
    durable_seq=COUNTS,
    acked_checkpoints=st.lists(TEXT).map(tuple),
    decision=st.sampled_from(["CONTINUE", "PAUSE", "STOP"]),
    should_checkpoint=st.booleans(),
    kept=st.none() | st.lists(TEXT).map(tuple),
    ledger=st.lists(DECISIONS, max_size=4).map(tuple),
    discards=st.booleans(),
)
FINAL_COMMITS = st.builds(
    FinalCommit,
    attempt=ATTEMPTS,
    seq=COUNTS,
    acked_seq=COUNTS,
    last=st.none() | RESULTS,
    checkpoints=st.lists(COMMITS, max_size=8).map(tuple),
    restored=RESTORED,
    store_problem=PROBLEMS,
    done=st.booleans(),
    complete=st.booleans(),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
FIELDS = [
    "attempt", "phase", "results", "checkpoints", "restored", "store_problem", "acked_seq", "durable_seq", "seq",
    "last", "acked_checkpoints", "decision", "kept", "time", "metrics", "step", "uri", "digest", "reason", "message",
    "checkpoint", "metric", "version", "ledger", "number", "inputs", "action",
]  # fmt: skip
PARSERS = [parse_report, parse_reply, lambda data: parse_final_commit(data.decode("utf-8", "surrogateescape"))]


@given(REPORTS)
@settings(deadline=None)
def test_a_report_comes_back_as_it_was(report: Report) -> None:
    assert parse_report(report.to_json()) == report


@given(REPLIES)
def test_a_reply_comes_back_as_it_was(reply: Reply) -> None:
    assert parse_reply(reply.to_json()) == reply


@given(RESULTS)
def test_a_result_comes_back_as_it_was_and_takes_one_line(result: Result) -> None:
    line = encode_result(result)
    assert "\n" not in line
    assert parse_result(json.loads(line)) == result


@given(FINAL_COMMITS)
@settings(max_examples=300, deadline=None)
def test_a_final_commit_fits_and_keeps_what_counts(commit: FinalCommit) -> None:
    text = commit.to_json()
    assert len(text.encode()) <= messages.MAX_FINAL_COMMIT
    parsed = parse_final_commit(text)
    assert (parsed.attempt, parsed.seq, parsed.acked_seq) == (commit.attempt, commit.seq, commit.acked_seq)
    assert (parsed.done, parsed.complete) == (commit.done, commit.complete)


def test_the_largest_usual_final_commit_keeps_the_last_result_and_all_commits() -> None:
    commit = FinalCommit(
        attempt="3c6ef372-fe94-f82b-3c6e-f372fe94f82b",
        seq=100,
        acked_seq=90,
        last=Result(100, 1.0, {"accuracy": 0.5, **{f"metric-{n}": n / 7 for n in range(20)}}, 100, True),
        checkpoints=tuple(
            CheckpointCommit(CheckpointRef(f"s3://bucket/{'p' * 200}/{n}", DIGEST, n), n, n / 7) for n in range(4)
        ),
        restored=Restored(CheckpointRef(f"s3://bucket/{'p' * 200}/50", DIGEST, 50), 50 / 7),
    )
    assert parse_final_commit(commit.to_json()) == commit


def test_the_worst_final_commit_keeps_the_newest_commit_and_the_first_values() -> None:
    message = "\U0001f525" * 512
    commit = FinalCommit(
        attempt="pod-1",
        seq=2,
        acked_seq=1,
        last=Result(2, 1.0, {"accuracy": 0.5, **{f"{n}-{'k' * 120}": "v" * 256 for n in range(63)}, "b": 1.0}, 2),
        checkpoints=tuple(CheckpointCommit(CheckpointRef(f"s3://b/{'p' * 1000}/{n}", DIGEST, n), n) for n in range(9)),
        restored=Restored(CheckpointRef("s3://b/1", DIGEST, 1), message=message),
        store_problem=StoreProblem("Unreachable", message, permanent=False),
    )
    text = commit.to_json()
    assert len(text.encode()) <= messages.MAX_FINAL_COMMIT
    parsed = parse_final_commit(text)
    assert parsed.last.metrics["accuracy"] == 0.5
    assert [commit.checkpoint.step for commit in parsed.checkpoints] == [8]
    assert parsed.restored.step == 1
    assert parsed.store_problem.message.startswith("\U0001f525" * 30)


@given(st.sampled_from(PARSERS), st.binary(max_size=100))
def test_no_bytes_break_a_parser(parse: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        parse(data)


@given(st.sampled_from(PARSERS), st.dictionaries(st.sampled_from(FIELDS), JSON))
@settings(max_examples=200, deadline=None)
def test_no_json_breaks_a_parser(parse: Callable[[bytes], object], body: dict[str, object]) -> None:
    with contextlib.suppress(ProtocolError):
        parse(json.dumps(body).encode())


@given(REPORTS, st.sampled_from(FIELDS), JSON)
@settings(deadline=None)
def test_no_wrong_field_breaks_a_parser_or_gets_through_unencodable(report: Report, field: str, value: object) -> None:
    body = json.loads(report.to_json())
    targets = [body, *body["results"], *body["checkpoints"], body["restored"] or {}, body["store_problem"] or {}]
    for target in targets:
        if field in target:
            target[field] = value
    try:
        parsed = parse_report(json.dumps(body).encode())
    except ProtocolError:
        return
    json.dumps(json.loads(parsed.to_json()), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"[" * 200_000, "not JSON"),
        (b"9" * 10_000, "not JSON"),
        (b" " * (messages.MAX_REPORT_BYTES + 1), "at most"),
        (b'{"attempt": "a", "results": 1}', "results is not a list"),
        (b'{"attempt": "a", "phase": "Sleeping"}', "phase is 'Sleeping'"),
        (b'{"attempt": ""}', "attempt is missing"),
        (b'{"attempt": "a", "results": [{"seq": 0, "step": 1, "metrics": {}}]}', "counts from 1"),
        (
            b'{"attempt": "a", "results": [{"seq": 1, "step": 1, "metrics": {"x": null}}]}',
            "metrics.'x' is not a number",
        ),
        (b'{"attempt": "a", "results": [{"seq": 1, "step": 1, "metrics": {"x": 9999999999999999999999}}]}', "64 bits"),
        (b'{"attempt": "a", "results": [{"seq": 1, "step": 1, "metrics": {"x": "\\ud800"}}]}', "surrogate"),
        (b'{"attempt": "a", "results": [{"seq": 1, "step": 1, "metrics": {}, "time": Infinity}]}', "finite"),
    ],
)
def test_a_bad_report_is_told_what_is_wrong_with_it(data: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        parse_report(data)


def test_nan_gets_through() -> None:
    result = Result(1, 0.0, {"loss": math.nan}, 1)
    loss = parse_report(Report("a", results=(result,)).to_json()).results[0].metrics["loss"]
    assert isinstance(loss, float)
    assert math.isnan(loss)
