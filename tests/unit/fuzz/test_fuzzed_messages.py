"""What comes over the network from pods: whoever owns a pod can send anything."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtune.agent.state.result_line import BadLine, parse_line
from podtune.kube.errors import ApiError
from podtune.protocol import storage_job
from podtune.protocol.checkpoint import CheckpointRef, parse_restore_list
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import (
    MAX_FINAL_COMMIT,
    MAX_METRICS,
    MAX_REPORT_BYTES,
    CheckpointCommit,
    FinalCommit,
    Report,
    Restored,
    Result,
    StoreProblem,
    parse_final_commit,
    parse_reply,
    parse_report,
)
from podtune.results.authentication import Authenticator, Caller, Unauthenticated
from podtune.storage.checkpoint.manifest import CheckpointManifest, InvalidManifest, ManifestFile, parse_manifest
from tests.unit.fuzz.junk import assert_one_sentence, data, fuzzed, spoilt, texts, values

RESULT = Result(1, 1.0, {"accuracy": 0.5, "name": "x"}, 1, True)
COMMIT = CheckpointCommit(CheckpointRef("s3://bucket/uid/e-0/pod/1", f"sha256:{'0' * 64}", 1), 1, 0.5)
REPORT = Report(
    "pod", results=(RESULT,), checkpoints=(COMMIT,), restored=Restored(COMMIT.checkpoint), store_problem=None
)
FINAL = FinalCommit("pod", 1, 1, RESULT, (COMMIT,), Restored(message="afresh"), StoreProblem("Unreachable", "x", False))
MANIFEST = json.loads(
    CheckpointManifest(
        attempt="pod",
        step=1,
        iteration=1,
        metric="0.5",
        created="2026-01-01T00:00:00Z",
        files=(ManifestFile("weights", 3, "0" * 64),),
    ).to_bytes()
)
REVIEW = {
    "status": {
        "authenticated": True,
        "audiences": ["podtune.dev/results"],
        "user": {
            "username": "system:serviceaccount:ml:default",
            "extra": {
                "authentication.kubernetes.io/pod-name": ["e-0-1"],
                "authentication.kubernetes.io/pod-uid": ["uid"],
            },
        },
    }
}


def written(document: Any) -> bytes:
    return json.dumps(document).encode()


@fuzzed
@given(data | spoilt(asdict(REPORT)).map(written))
def test_a_report_is_read_or_refused(body: bytes) -> None:
    try:
        report = parse_report(body)
    except ProtocolError as error:
        assert_one_sentence(error)
        return
    assert all(len(result.metrics) <= MAX_METRICS for result in report.results)
    assert parse_report(report.to_json()).attempt == report.attempt


def test_a_report_that_is_too_long_is_not_even_read() -> None:
    with pytest.raises(ProtocolError, match="at most"):
        parse_report(b"[" * (MAX_REPORT_BYTES + 1))


@fuzzed
@given(data | values.map(written))
def test_a_reply_is_read_or_refused(body: bytes) -> None:
    try:
        parse_reply(body)
    except ProtocolError as error:
        assert_one_sentence(error)


@fuzzed
@given(texts | spoilt(asdict(FINAL)).map(json.dumps))
def test_a_final_commit_is_read_or_refused(text: str) -> None:
    try:
        commit = parse_final_commit(text)
    except ProtocolError as error:
        assert_one_sentence(error)
        return
    assert len(commit.to_json()) <= MAX_FINAL_COMMIT


@fuzzed
@given(data | values.map(written), st.text(max_size=20))
def test_a_line_of_results_is_read_or_refused(line: bytes, objective: str) -> None:
    try:
        result = parse_line(line, objective)
    except BadLine as error:
        assert_one_sentence(error)
        return
    assert len(result.metrics) < MAX_METRICS
    if result.is_result:
        body = asdict(Report("pod", results=(Result(1, 1.0, result.metrics, 1),)))
        assert parse_report(written(body)).results[0].metrics.keys() == result.metrics.keys()


@fuzzed
@given(data | spoilt(MANIFEST).map(written))
def test_a_checkpoints_manifest_is_read_or_refused(body: bytes) -> None:
    try:
        manifest = parse_manifest(body)
    except InvalidManifest as error:
        assert_one_sentence(error)
        return
    for file in manifest.files:
        assert not file.path.startswith("/")
        assert ".." not in file.path.split("/")


@fuzzed
@given(texts | values.map(json.dumps))
def test_what_to_restore_is_read_or_refused(text: str) -> None:
    try:
        parse_restore_list(text)
    except ProtocolError as error:
        assert_one_sentence(error)


@fuzzed
@given(texts | spoilt({"purpose": "Prune", "ok": True, "message": "done", "deleted": 1}).map(json.dumps))
def test_a_storage_pods_report_is_read_or_refused(text: str) -> None:
    for parse in (storage_job.parse_storage_report, storage_job.parse_task):
        try:
            parse(text)
        except ProtocolError as error:
            assert_one_sentence(error)


@fuzzed
@given(st.binary(max_size=200))
def test_what_a_storage_pod_knows_of_trials_is_read_or_refused(body: bytes) -> None:
    try:
        list(storage_job.read_chunk(body))
    except ProtocolError as error:
        assert_one_sentence(error)


class Reviewer:
    """An API server that answers anything."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def request(self, *_: Any, **__: Any) -> Any:
        return self.answer


@fuzzed
@given(spoilt(REVIEW).filter(lambda answer: isinstance(answer, dict)))
async def test_a_reviewed_token_names_a_pod_or_proves_nothing(answer: dict[str, Any]) -> None:
    authenticator = Authenticator(Reviewer(answer), lambda: 0.0)  # type: ignore[arg-type]
    try:
        caller = await authenticator.authenticate("Bearer token")
    except (Unauthenticated, ApiError) as error:
        assert_one_sentence(error)
        return
    assert isinstance(caller, Caller)
    assert caller.namespace
    assert caller.pod
    assert caller.uid


@fuzzed
@given(st.text())
async def test_an_authorization_header_is_taken_or_refused(header: str) -> None:
    authenticator = Authenticator(Reviewer({"status": {}}), lambda: 0.0)  # type: ignore[arg-type]
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(header)
