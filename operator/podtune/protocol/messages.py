"""The messages between agent and operator over HTTP.

`POST /v1/namespaces/{namespace}/trials/{trial}/results` with `Authorization: Bearer <projected token>` carries a
`Report`; the answer is a `Reply`. The agent always sends on from the reply's `acked_seq` + 1, whatever it had sent
before: so a reply is all it takes to have results replayed, and a result sent twice is taken once (go-back-N).

Statuses: 200 a reply; 401 the token is not valid; 403 it is not this trial's; 409 this attempt is not the trial's
current one any more, and never will be again: stop sending; 503 with Retry-After: ask again, another operator leads.

`GET /v1/namespaces/{namespace}/trials/{trial}/log?since=<RFC 3339 with nanoseconds>` streams the standard output of
the training program, each line with its timestamp before it, as it comes, until the program has ended. 429 with
Retry-After: the pod or its namespace has its share of logs already; ask again.

In a warm pod the report that holds the attempt's final commit is posted again and again, until a reply names the
attempt that the pod is to run next.

Standard library only: the agent imports it, and has to start fast.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from podtune.protocol.assignment import Assignment, parse_assignment
from podtune.protocol.checkpoint import CheckpointRef, parse_checkpoint
from podtune.protocol.fields import (
    ProtocolError,
    is_unicode,
    read_clipped,
    read_count,
    read_json,
    read_list,
    read_object,
    read_text,
    read_texts,
)
from podtune.protocol.snapshot import SnapshotRecord, StoredVersions, parse_record, parse_stored_versions
from podtune.protocol.tracking import RunFacts, parse_run_facts

MetricValue = float | int | str | bool
Phase = Literal["Training", "Draining"]

MAX_RESULTS_A_REPORT = 500
MAX_COMMITS_A_REPORT = 64
MAX_ATTEMPT = 128
MAX_METRICS = 66
"""Of which the agent fills some in: `podtune.trial.layout.FILLED_IN`."""
MAX_KEY = 128
MAX_TEXT = 256
MAX_REPORTED_MESSAGE = 512
MAX_REPORT_BYTES = 1 << 20
MAX_WHOLE_NUMBER = 1 << 63
"""Whole numbers at and beyond this, of either sign, are taken as no metric: they do not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a training program.

    Attributes:
        seq: Position among the attempt's results, from 1, without gaps.
        time: When the agent read it, in seconds since the epoch.
        metrics: Flat values by name; nested ones were flattened with `/`.
        step: `training_iteration`: iterations so far over all attempts.
        checkpoint: Whether a checkpoint was taken with it (its commit follows in a later report).
    """

    seq: int
    time: float
    metrics: Mapping[str, MetricValue]
    step: int
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointCommit:
    """A checkpoint whose manifest is in the bucket.

    Attributes:
        checkpoint: Which one.
        seq: The `seq` of the result that it was taken with.
        metric: The objective's value in that result; None where it is no number.
    """

    checkpoint: CheckpointRef
    seq: int
    metric: float | None = None


@dataclass(frozen=True, slots=True)
class Unstored:
    """Checkpoints that the program has reported since the newest one that is stored.

    Attributes:
        since: The `seq` of the result that the first of them was taken with.
        seq: That of the newest.
        step: The `step` of that result.
        waits: Whether the agent still has some to store; if not, they were given up.
    """

    since: int
    seq: int
    step: int
    waits: bool


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """Why checkpoints can't be stored at present.

    Attributes:
        reason: One word: BucketNotFound, AccessDenied, InvalidCredentials, Unreachable, …
        message: A sentence with the bucket, the endpoint and the remedy.
        permanent: Whether waiting alone can't mend it.
    """

    reason: str
    message: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """What the attempt started from.

    Attributes:
        checkpoint: What was restored; None if the attempt starts from scratch.
        metric: The objective's value with it; None where its manifest says none.
        message: What could not be restored before it, and why.
    """

    checkpoint: CheckpointRef | None = None
    metric: float | None = None
    message: str = ""

    @property
    def step(self) -> int:
        """Step of the checkpoint; 0 if the attempt starts from scratch."""
        return self.checkpoint.step if self.checkpoint else 0

    @property
    def uri(self) -> str:
        """URI of the checkpoint; empty if the attempt starts from scratch."""
        return self.checkpoint.uri if self.checkpoint else ""


@dataclass(frozen=True, slots=True)
class RestoreFailure:
    """Why an attempt in a warm pod could not begin.

    Attributes:
        exit_code: What a restore container would have ended with: 1 where it can never work, or another.
        message: What went wrong.
    """

    exit_code: int
    message: str


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """A decision on the trial, as it stands in the Trial's status.

    Attributes:
        number: Position among the trial's decisions, from 1.
        time: When it was taken (RFC 3339).
        attempt: Number of the attempt that it was taken on.
        step: The iteration that it was taken on.
        action: What was decided: CONTINUE, PAUSE, STOP, …
        message: Why, in a sentence.
        inputs: The numbers behind it.
    """

    number: int
    time: str
    attempt: int
    step: int
    action: str
    message: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent posts: results, commits of checkpoints, and how it is.

    Attributes:
        attempt: The attempt's id.
        phase: Training, or Draining once the program has ended.
        results: Results from the first unacknowledged one on.
        checkpoints: Commits that are not acknowledged yet.
        restored: What the attempt started from, once it is known.
        store_problem: Why checkpoints can't be stored at present.
        ledger: Number of the last decision that the agent has heard of.
        final: The final commit of an attempt that is over, whose pod is to be given another one.
        restore_failure: Why an attempt that is over has not begun; None where it has.
        unstored: What is reported and not stored; None where the newest checkpoint is.
        stored: Which records of the snapshot the agent has stored last, where it would store newer ones now.
    """

    attempt: str
    phase: Phase = "Training"
    results: tuple[Result, ...] = ()
    checkpoints: tuple[CheckpointCommit, ...] = ()
    restored: Restored | None = None
    store_problem: StoreProblem | None = None
    ledger: int = 0
    final: FinalCommit | None = None
    restore_failure: RestoreFailure | None = None
    unstored: Unstored | None = None
    stored: StoredVersions | None = None

    def to_json(self) -> bytes:
        """Encodes the report."""
        return json.dumps(self, default=_encode_fields, separators=(",", ":"), allow_nan=True).encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """The operator's answer.

    Attributes:
        acked_seq: Last result taken in; send on from the next.
        durable_seq: Last result that survives the operator's death.
        acked_checkpoints: `uri`s of the commits that are recorded in the trial's status.
        decision: CONTINUE, or what will end the attempt soon.
        should_checkpoint: Whether a checkpoint is wanted as soon as possible.
        kept: `uri`s of all the trial's checkpoints that it or another trial still needs; others, older than the newest
            of them, may be deleted from the bucket. None: not known at present, delete nothing.
        ledger: Decisions on the trial that the agent has not heard of, oldest first, for the bucket.
        next: What the pod is to run next, where the attempt is over and there is something.
        discards: Whether no checkpoint of the trial is kept but those in `kept`: none is to be stored any more.
        records: Newer records of the snapshot than the agent has stored, where it asks for them.
        run: What the trial's run in a tracker is to be shown as; None where there is no tracker.
    """

    acked_seq: int
    durable_seq: int
    acked_checkpoints: tuple[str, ...] = ()
    decision: Literal["CONTINUE", "PAUSE", "STOP"] = "CONTINUE"
    should_checkpoint: bool = False
    kept: tuple[str, ...] | None = None
    ledger: tuple[LedgerLine, ...] = ()
    next: Assignment | None = None
    discards: bool = False
    records: tuple[SnapshotRecord, ...] = ()
    run: RunFacts | None = None

    def to_json(self) -> bytes:
        """Encodes the reply."""
        return json.dumps(self, default=_encode_fields, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class FinalCommit:
    """The agent's last word, its container's termination message: at most 3 KiB of JSON.

    Attributes:
        attempt: The attempt's id.
        seq: Last result that the program wrote.
        acked_seq: Last result that the operator had taken in.
        last: The last result, shortened where it would not fit.
        checkpoints: Commits that the operator had not acknowledged yet, the newest last; at most four.
        restored: What the attempt started from.
        store_problem: Why the last checkpoint could not be stored, if it could not.
        done: Whether the program said that it was done: it returned normally, or asked to stop.
        complete: False where results may be missing altogether (a lost log stream).
        ledger: Number of the last decision that is in the bucket; all that the agent has heard of before it are, too.
        unstored: What is reported and not stored; None where the newest checkpoint is.
        version: Version of this message's format.
    """

    attempt: str
    seq: int
    acked_seq: int
    last: Result | None = None
    checkpoints: tuple[CheckpointCommit, ...] = ()
    restored: Restored | None = None
    store_problem: StoreProblem | None = None
    done: bool = False
    complete: bool = True
    ledger: int = 0
    unstored: Unstored | None = None
    version: int = field(default=1)

    def to_json(self) -> str:
        """Encodes the final commit; never longer than `MAX_FINAL_COMMIT` bytes.

        What does not fit is given up in this order: the ends of messages, older commits, texts among the last
        result's values, other values from the last one on, the last result, and all but the counters.
        """
        return next(text for text in map(_encode, _shorten(self)) if len(text) <= MAX_FINAL_COMMIT)


MAX_FINAL_COMMIT = 3072
MAX_COMMITS_AT_END = 4
NOT_RESTORABLE = 1
"""Exit code of a restore for which it is certain that no checkpoint can be put in place."""
UNACKED_PREFIX = "podtune-result "
"""Before each result that was never acknowledged, or is not known to be durable, as JSON, in the agent's own log at
its end."""


def parse_report(data: bytes) -> Report:
    """Reads a report that came over the network.

    Raises:
        ProtocolError: It is not one.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise ProtocolError(f"the report has {len(data)} bytes; at most {MAX_REPORT_BYTES} are taken")
    body = read_object(read_json(data), "report")
    phase = body.get("phase", "Training")
    if phase not in ("Training", "Draining"):
        raise ProtocolError(f"phase is {phase!r}, not Training or Draining")
    return Report(
        attempt=read_text(body, "attempt", MAX_ATTEMPT),
        phase=phase,
        results=tuple(parse_result(item) for item in read_list(body, "results", MAX_RESULTS_A_REPORT)),
        checkpoints=tuple(_parse_commit(item) for item in read_list(body, "checkpoints", MAX_COMMITS_A_REPORT)),
        restored=None if body.get("restored") is None else parse_restored(body["restored"]),
        store_problem=_parse_problem(body.get("store_problem")),
        ledger=read_count(body, "ledger") if "ledger" in body else 0,
        final=None if body.get("final") is None else _parse_final(body["final"]),
        restore_failure=_parse_restore_failure(body.get("restore_failure")),
        unstored=_parse_unstored(body.get("unstored")),
        stored=parse_stored_versions(body.get("stored")),
    )


def parse_reply(data: bytes) -> Reply:
    """Reads a reply.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(read_json(data), "reply")
    decision = body.get("decision", "CONTINUE")
    if decision not in ("CONTINUE", "PAUSE", "STOP"):
        raise ProtocolError(f"decision is {decision!r}, not CONTINUE, PAUSE or STOP")
    return Reply(
        acked_seq=read_count(body, "acked_seq"),
        durable_seq=read_count(body, "durable_seq"),
        acked_checkpoints=read_texts(body, "acked_checkpoints"),
        decision=decision,
        should_checkpoint=bool(body.get("should_checkpoint", False)),
        kept=None if body.get("kept") is None else read_texts(body, "kept"),
        ledger=tuple(_parse_entry(item) for item in read_list(body, "ledger")),
        next=None if body.get("next") is None else parse_assignment(body["next"]),
        discards=bool(body.get("discards", False)),
        records=tuple(parse_record(item) for item in read_list(body, "records")),
        run=parse_run_facts(body.get("run")),
    )


def parse_final_commit(text: str) -> FinalCommit:
    """Reads a termination message.

    Raises:
        ProtocolError: It is not a final commit.
    """
    return _parse_final(read_json(text))


def _parse_final(item: object) -> FinalCommit:
    body = read_object(item, "final commit")
    last = body.get("last")
    return FinalCommit(
        attempt=read_text(body, "attempt", MAX_ATTEMPT),
        seq=read_count(body, "seq"),
        acked_seq=read_count(body, "acked_seq"),
        last=None if last is None else parse_result(last),
        checkpoints=tuple(_parse_commit(item) for item in read_list(body, "checkpoints")),
        restored=None if body.get("restored") is None else parse_restored(body["restored"]),
        store_problem=_parse_problem(body.get("store_problem")),
        done=bool(body.get("done", False)),
        complete=bool(body.get("complete", True)),
        ledger=read_count(body, "ledger") if "ledger" in body else 0,
        unstored=_parse_unstored(body.get("unstored")),
        version=read_count(body, "version"),
    )


def parse_result(item: object) -> Result:
    """Reads one result.

    Raises:
        ProtocolError: It is not one.
    """
    body = read_object(item, "result")
    metrics = read_object(body.get("metrics"), "result.metrics")
    if len(metrics) > MAX_METRICS:
        raise ProtocolError(f"result.metrics holds {len(metrics)} values; at most {MAX_METRICS} are taken")
    for key, value in metrics.items():
        problem = find_metric_problem(key, value)
        if problem:
            raise ProtocolError(f"result.metrics.{key[:MAX_KEY]!r} {problem}")
    seq = read_count(body, "seq")
    if seq < 1:
        raise ProtocolError("result.seq is 0; it counts from 1")
    time = body.get("time", 0.0)
    if isinstance(time, bool) or not isinstance(time, int | float) or not math.isfinite(time):
        raise ProtocolError("result.time is not a finite number")
    return Result(
        seq=seq,
        time=float(time),
        metrics=metrics,
        step=read_count(body, "step"),
        checkpoint=bool(body.get("checkpoint")),
    )


def read_number(metrics: Mapping[str, MetricValue], name: str) -> float | None:
    """A metric's value as a number; None where it is missing, or no number."""
    value = metrics.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def find_metric_problem(key: str, value: object) -> str | None:
    """What stands in the way of taking this as one metric of a result; None when nothing does."""
    if not key or len(key) > MAX_KEY or not is_unicode(key):
        return f"has a name that is not a text of 1 to {MAX_KEY} characters"
    match value:
        case bool() | float():
            return None
        case int():
            return None if abs(value) < MAX_WHOLE_NUMBER else "is a whole number of more than 64 bits"
        case str() if not is_unicode(value):
            return "is a text with half a surrogate pair in it"
        case str():
            return None if len(value) <= MAX_TEXT else f"is longer than {MAX_TEXT} characters"
        case _:
            return "is not a number, text or boolean"


def encode_result(result: Result) -> str:
    """Encodes one result on one line."""
    return json.dumps(result, default=_encode_fields, separators=(",", ":"), allow_nan=True)


def encode_ledger(entries: Iterable[LedgerLine]) -> bytes:
    """Encodes decisions as they stand in the bucket: a JSON object on each line."""
    return "".join(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in entries).encode()


def parse_ledger(data: bytes) -> tuple[LedgerLine, ...]:
    """Reads decisions back that `encode_ledger` wrote.

    Raises:
        ProtocolError: They are not such lines.
    """
    return tuple(_parse_entry(read_json(line)) for line in data.splitlines())


def _shorten(commit: FinalCommit) -> Iterator[FinalCommit]:
    """The final commit, then ever shorter ones, the last of which always fits."""
    commit = replace(commit, checkpoints=commit.checkpoints[-MAX_COMMITS_AT_END:])
    yield commit
    if commit.restored:
        commit = replace(commit, restored=replace(commit.restored, message=_cut(commit.restored.message, 160)))
    if commit.store_problem:
        message = _cut(commit.store_problem.message, 480)
        commit = replace(commit, store_problem=replace(commit.store_problem, message=message))
    yield commit
    while len(commit.checkpoints) > 1:
        commit = replace(commit, checkpoints=commit.checkpoints[1:])
        yield commit
    if commit.last:
        numbers = {key: value for key, value in commit.last.metrics.items() if not isinstance(value, str)}
        for count in range(len(numbers), 0, -1):
            yield replace(commit, last=replace(commit.last, metrics=dict(islice(numbers.items(), count))))
    commit = replace(commit, last=None)
    yield commit
    yield replace(commit, restored=None, store_problem=None)
    yield replace(commit, restored=None, store_problem=None, checkpoints=(), attempt=commit.attempt[:MAX_ATTEMPT])


def _cut(text: str, limit: int) -> str:
    """The beginning of a text, so long that it takes at most `limit` bytes as JSON."""
    while len(json.dumps(text)) > limit:
        text = text[: len(text) * limit // len(json.dumps(text)) - 1]
    return text


def _encode(commit: FinalCommit) -> str:
    return json.dumps(commit, default=_encode_fields, separators=(",", ":"), allow_nan=True)


def _encode_fields(message: Any) -> dict[str, Any]:
    """What is encoded of a message; those within it follow in turn, and nothing is copied, as `asdict` does."""
    return {name: getattr(message, name) for name in message.__slots__}


def _parse_commit(item: object) -> CheckpointCommit:
    body = read_object(item, "commit")
    return CheckpointCommit(parse_checkpoint(body.get("checkpoint")), read_count(body, "seq"), _parse_number(body))


def _parse_number(body: Mapping[str, Any]) -> float | None:
    value = body.get("metric")
    if value is None:
        return None
    if isinstance(value, bool | str) or find_metric_problem("metric", value):
        raise ProtocolError("metric is not a number")
    return float(value)


def _parse_entry(item: object) -> LedgerLine:
    body = read_object(item, "ledger entry")
    inputs = read_object(body.get("inputs", {}), "inputs")
    if not all(isinstance(number, str) for number in inputs.values()):
        raise ProtocolError("inputs does not hold texts alone")
    return LedgerLine(
        number=read_count(body, "number"),
        time=read_text(body, "time"),
        attempt=read_count(body, "attempt"),
        step=read_count(body, "step"),
        action=read_text(body, "action"),
        message=read_clipped(body, "message", MAX_REPORTED_MESSAGE),
        inputs=inputs,
    )


def parse_restored(item: object) -> Restored:
    """Reads what an attempt started from.

    Raises:
        ProtocolError: It is not that.
    """
    body = read_object(item, "restored")
    return Restored(
        checkpoint=None if body.get("checkpoint") is None else parse_checkpoint(body["checkpoint"]),
        metric=_parse_number(body),
        message=read_clipped(body, "message", MAX_REPORTED_MESSAGE),
    )


def _parse_restore_failure(item: object) -> RestoreFailure | None:
    if item is None:
        return None
    body = read_object(item, "restore_failure")
    return RestoreFailure(read_count(body, "exit_code"), read_clipped(body, "message", MAX_REPORTED_MESSAGE))


def _parse_unstored(item: object) -> Unstored | None:
    if item is None:
        return None
    body = read_object(item, "unstored")
    return Unstored(
        since=read_count(body, "since"),
        seq=read_count(body, "seq"),
        step=read_count(body, "step"),
        waits=bool(body.get("waits", False)),
    )


def _parse_problem(item: object) -> StoreProblem | None:
    if item is None:
        return None
    body = read_object(item, "store_problem")
    return StoreProblem(
        reason=read_text(body, "reason", 64),
        message=read_clipped(body, "message", MAX_REPORTED_MESSAGE),
        permanent=bool(body.get("permanent", False)),
    )
