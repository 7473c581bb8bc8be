"""Everything an agent knows about its attempt, and what it has to report next.

No files, no network, no clock. Several threads share it: each holds `changed` while it uses it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from podtune.agent.state.outbox import Outbox
from podtune.agent.state.record_exchange import RecordExchange
from podtune.agent.state.result_line import ResultLine
from podtune.agent.state.training_time import TrainingTimer, read_total
from podtune.protocol.assignment import Assignment
from podtune.protocol.checkpoint_queue import CheckpointQueue, PendingCheckpoint
from podtune.protocol.messages import (
    CheckpointCommit,
    FinalCommit,
    LedgerLine,
    MetricValue,
    Phase,
    Reply,
    Report,
    Restored,
    RestoreFailure,
    Result,
    StoreProblem,
    Unstored,
    read_number,
)
from podtune.protocol.tracking import RunFacts
from podtune.trial.layout import ITERATION

HEARTBEAT = 10.0
"""Seconds between reports when there is nothing to say: so that decisions arrive."""
SHARED_HEARTBEAT = 2.0
"""The same in a pod that is reused: a trial that is to stop gives it to the next one soon."""
MAX_LEDGER = 10_000
"""Decisions that are held; a trial has a few dozen."""
FIRST_PATIENCE = 0.02
PATIENCE_GROWTH = 1.5
LONGEST_PATIENCE = 1.0
"""Seconds from one question of a pod that has nothing to do to the next, at first and at last: for an operator that
does not keep it waiting until there is something."""
REMINDER = 1.0
"""Seconds until something is said again that a reply has left unacknowledged, or until news of durability is needed."""


@dataclass(frozen=True, slots=True)
class AddedLine:
    """What a line of results has brought.

    Attributes:
        result: The result that was made of it.
        given_up: A checkpoint that will not be stored: the line's own where there is no store, or an older one that has
            to make room.
    """

    result: Result | None = None
    given_up: PendingCheckpoint | None = None


class Attempt:
    """One attempt, as its agent sees it. A warm pod's agent makes a new one for each: nothing here outlives it.

    What holds at any time: `fenced`, `done`, `has_left`, `discards` and `hands_over` are set once, and never taken
    back. `has_left` implies `done`; `hands_over` comes only after `start_draining`, and `next` only after `hands_over`.
    Of the private flags, `_unsaid` stands for news that the next report will hold, `_matters` for news in the report
    that was sent last, which `record_lost_report` turns back into `_unsaid`.

    Attributes:
        changed: Held by whoever uses the attempt, and notified when something has changed.
        outbox: Results on their way.
        checkpoints: Checkpoints on their way.
        records: Records of the snapshot on their way.
        restored: What the attempt started from; None until it is known.
        phase: Training, or Draining once the program has ended.
        store_problem: Why checkpoints can't be stored at present.
        fenced: Whether the operator has said that this attempt counts no more.
        done: Whether the program has said that it is done.
        complete: Whether every result was read.
        kept: The checkpoints that must stay in the bucket, by the latest reply; None when it is not known.
        wants: The program's instructions, as they stand in the control file.
        ledger: The decisions on the trial that the operator has told of, oldest first; the latest `MAX_LEDGER`.
        ledger_stored: Number of the last of them that is in the bucket.
        has_left: Whether the program has gone on to another trial.
        hands_over: Whether the operator is being told that the attempt is over, and asked what is next.
        discards: Whether no checkpoint of the trial is kept but those in `kept`: none is stored any more.
        restore_failure: Why the attempt can't begin; None where it can.
        next: The attempt that the pod is to run next; None while that is not known.
        run: What the trial's run in a tracker is to be shown as, by the latest reply that says so.
    """

    def __init__(self, attempt_id: str, objective: str, has_store: bool, *, heartbeat: float = HEARTBEAT) -> None:
        self.changed = threading.Condition()
        self._heartbeat = heartbeat
        self._id = attempt_id
        self._objective = objective
        self._has_store = has_store
        self._start_iteration = 0
        self._time = TrainingTimer()
        self._sent_seq = 0
        self._unsaid = True  # the first report says that the agent is there
        self._awaits_reply = False
        self._asks = False
        self._matters = False
        self._said_unstored: Unstored | None = None
        self._asked_at = float("-inf")
        self._replied_at = float("-inf")
        self.outbox = Outbox()
        self.checkpoints = CheckpointQueue()
        self.records = RecordExchange()
        self.restored: Restored | None = None
        self.phase: Phase = "Training"
        self.store_problem: StoreProblem | None = None
        self.fenced = False
        self.done = False
        self.complete = True
        self.kept: tuple[str, ...] | None = None
        self.wants: Mapping[str, bool] = {"shouldCheckpoint": False, "shouldStop": False}
        self.ledger: deque[LedgerLine] = deque(maxlen=MAX_LEDGER)
        self.ledger_stored = 0
        self.has_left = False
        self.discards = False
        self.restore_failure: RestoreFailure | None = None
        self.next: Assignment | None = None
        self.run: RunFacts | None = None
        self.hands_over = False
        self._patience = 0.0

    def begin(self, time: float) -> None:
        """Learns when the program has begun, by the clock that results are read by."""
        self._time.begin(time)

    def set_restored(self, restored: Restored, iteration: int, time_total: float = 0.0) -> None:
        """Learns what the attempt started from; iterations and seconds of training are counted on from there."""
        self.restored = restored
        self._start_iteration = iteration
        self._time.go_on_from(time_total)
        self._unsaid = True

    def add(self, line: ResultLine, time: float) -> AddedLine:
        """Takes a line of results in, read at `time`."""
        self.done = self.done or line.done
        self.has_left = self.has_left or line.ends
        if not line.is_result:
            return AddedLine()
        result = self._make_result(line, self.outbox.last_seq + 1, time)
        self.outbox.add(result)
        if line.checkpoint is None:
            return AddedLine(result)
        metric = read_number(result.metrics, self._objective)
        pending = PendingCheckpoint(result.seq, result.step, line.checkpoint, metric, read_total(result.metrics))
        return AddedLine(result, self.checkpoints.add(pending) if result.checkpoint else pending)

    def set_store_problem(self, problem: StoreProblem | None) -> None:
        """Learns how the store is: None means that it works."""
        if problem != self.store_problem:
            self.store_problem = problem
            self._unsaid = True

    def commit(self, commit: CheckpointCommit) -> None:
        """The checkpoint in flight is in the bucket.

        Once the program has ended, the answer to this news may bring the last decision: it is waited for.
        """
        self.checkpoints.succeed(commit)
        self.set_store_problem(None)
        self._unsaid = True
        self._asks = self.phase == "Draining"

    def start_draining(self) -> None:
        """The program has ended. Where nothing is left to deliver, nobody has to hear of it but the final commit.

        Where there is a store, the operator is asked once more for the decisions on the trial, such as the one that has
        ended the attempt.
        """
        self.phase = "Draining"
        self._asks = self._has_store
        if not (self.outbox.is_acked and self.checkpoints.is_stored):
            self._unsaid = True

    def ask(self) -> None:
        """Has the operator asked once more for what it knows, whether or not there is anything to report."""
        self._asks = True

    def hand_over(self) -> None:
        """All is stored: the operator is told that the attempt is over, until it says what is next."""
        self.hands_over = True
        self._patience = FIRST_PATIENCE
        self._unsaid = True

    def compute_next_report_time(self) -> float:
        """When the next report is due, by the clock that `build_report` and `take_reply` are given."""
        if self._unsaid or self._asks or self._sent_seq < self.outbox.last_seq or self._has_other_unstored:
            return float("-inf")
        if self.hands_over:
            return self._asked_at + self._patience
        waits = not self.outbox.is_acked or self.outbox.is_full or bool(self.checkpoints.commits)
        return self._replied_at + (REMINDER if waits else self._heartbeat)

    def build_report(self, now: float) -> Report:
        """What to report now."""
        self._asked_at = now
        results = self.outbox.build_batch()
        self._sent_seq = results[-1].seq if results else self.outbox.acked_seq
        self._matters = self._unsaid or bool(results) or self._has_other_unstored
        self._unsaid = False
        self._said_unstored = self.checkpoints.unstored
        self._asks = False
        self._awaits_reply = True
        return Report(
            attempt=self._id,
            phase=self.phase,
            results=results,
            checkpoints=self.checkpoints.to_report(),
            restored=self.restored,
            store_problem=self.store_problem,
            ledger=self.last_decision,
            final=self.build_final_commit() if self.hands_over else None,
            restore_failure=self.restore_failure,
            unstored=self._said_unstored,
            stored=self.records.ask(now),
        )

    def take_reply(self, reply: Reply, now: float) -> None:
        """Learns from the operator's answer to the last report."""
        self._awaits_reply = False
        before = self.outbox.acked_seq
        self.outbox.take_reply(reply.acked_seq, reply.durable_seq)
        if self.outbox.acked_seq != before:
            self._sent_seq = self.outbox.acked_seq  # go on at once; where nothing moved, the reminder is soon enough
        self.checkpoints.acknowledge(reply.acked_checkpoints)
        self.kept = reply.kept
        if reply.discards and not self.discards:
            self.discards = True
            self.checkpoints.give_up_all()
        known = self.last_decision
        self.ledger.extend(entry for entry in reply.ledger if entry.number > known)
        self.wants = {"shouldCheckpoint": reply.should_checkpoint, "shouldStop": reply.decision != "CONTINUE"}
        self.next = reply.next
        self.records.take(reply.records, now)
        self.run = reply.run or self.run
        self._patience = min(self._patience * PATIENCE_GROWTH, LONGEST_PATIENCE)
        self._replied_at = now

    def record_lost_report(self) -> None:
        """The last report got no answer: everything in it must be reported again, if there was anything."""
        self._awaits_reply = False
        self._sent_seq = self.outbox.acked_seq
        self._unsaid = self._unsaid or self._matters or self.phase == "Training"

    @property
    def is_delivered(self) -> bool:
        """Whether the operator has received everything that it needs before the agent ends.

        Commits need not be acknowledged: the final commit contains the missing ones.
        """
        awaits = self._awaits_reply and self._matters
        return self.fenced or (self.outbox.is_acked and not self._unsaid and not awaits)

    @property
    def is_known(self) -> bool:
        """Whether the operator has answered anything yet."""
        return self._replied_at > float("-inf")

    @property
    def is_informed(self) -> bool:
        """Whether the operator has answered, or could not, since the last time that it was asked for decisions."""
        return self.fenced or not (self._asks or self._awaits_reply)

    @property
    def last_decision(self) -> int:
        """Number of the last decision that the operator has told of; 0 where it has told of none."""
        return self.ledger[-1].number if self.ledger else 0

    def build_final_commit(self) -> FinalCommit:
        """The agent's last word, as of now."""
        return FinalCommit(
            attempt=self._id,
            seq=self.outbox.last_seq,
            acked_seq=min(self.outbox.acked_seq, self.outbox.last_seq),
            last=self.outbox.last,
            checkpoints=self.checkpoints.commits,
            restored=self.restored,
            store_problem=self.store_problem,
            done=self.done,
            complete=self.complete,
            ledger=self.ledger_stored,
            unstored=self.checkpoints.unstored,
        )

    @property
    def _has_other_unstored(self) -> bool:
        """Whether the operator was told of other checkpoints that are not stored: it may wait for them."""
        return self._said_unstored != self.checkpoints.unstored

    def _make_result(self, line: ResultLine, seq: int, time: float) -> Result:
        """The result that a line stands for, with what the agent fills in."""
        metrics, step = self._add_iteration(line.metrics, seq)
        metrics = self._time.fill_in(metrics, time)
        stores = line.checkpoint is not None and self._has_store and not self.discards
        return Result(seq=seq, time=time, metrics=metrics, step=step, checkpoint=stores)

    def _add_iteration(self, metrics: Mapping[str, MetricValue], seq: int) -> tuple[dict[str, MetricValue], int]:
        given = metrics.get(ITERATION)
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 53:
            return dict(metrics), given
        step = self._start_iteration + seq
        return {**metrics, ITERATION: step}, step
