"""The agent of a simulated pod: has results and checkpoints taken in, and keeps what might have to be sent again."""

from __future__ import annotations

from collections.abc import Callable

from podtune.protocol.assignment import Assignment, format_attempt_folder
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import (
    CheckpointCommit,
    FinalCommit,
    Reply,
    Report,
    Restored,
    Result,
    StoreProblem,
    read_number,
)
from podtune.simulation.environment import AgentEnvironment
from podtune.simulation.training_state import TrainingState
from podtune.simulation.uploads import Uploads

FIRST_PATIENCE, LONGEST_PATIENCE = 0.02, 1.0
"""Seconds until a pod that has nothing to do asks again, at first and at last."""


class Agent:
    """Speaks for one attempt. No message is lost, but an operator that was started anew has to hear some again."""

    def __init__(
        self,
        environment: AgentEnvironment,
        trial: str,
        pod: str,
        attempt: str,
        restored: Restored,
        *,
        begin: Callable[[Assignment], None],
        stored: Callable[[], None],
    ) -> None:
        """Makes an agent that has nothing to say yet.

        Args:
            environment: What it shares with others.
            trial: Name of the trial.
            pod: Name of the pod.
            attempt: The attempt's id.
            restored: What was restored.
            begin: Begins with the next attempt, in a pod that is reused.
            stored: Is called when a checkpoint was stored, or was given up.
        """
        self._environment = environment
        self._trial = trial
        self._pod = pod
        self._attempt = attempt
        self._restored = restored
        self._begin = begin
        self._final: FinalCommit | None = None
        self._polls = 0
        self._results: list[Result] = []
        """Those that are not durable."""
        self._written = 0
        self._acked = 0
        self._last: Result | None = None
        self._uploads = self._make_uploads(stored)
        self._held: dict[str, TrainingState] = {}
        """What checkpoints hold that are not stored, by their URI."""
        self._decisions = 0
        """Number of the last decision on the trial that it has heard of."""
        self.wants_checkpoint = False
        """Whether the program is asked to take a checkpoint."""
        self.is_asked_to_leave = False
        """Whether a stop or a pause was decided."""

    def take(self, metrics: dict[str, float | int | str | bool], training: TrainingState, *, checkpoint: bool) -> None:
        """Takes in a result of the program's, perhaps with a checkpoint, and posts it."""
        self._written += 1
        result = Result(self._written, self._environment.clock.now, metrics, training.iteration, checkpoint)
        self._results.append(result)
        self._last = result
        if checkpoint:
            self.wants_checkpoint = False
            uri = f"{self._environment.prefix}{self._trial}/{format_attempt_folder(self._attempt)}/{training.iteration}"
            self._held[uri] = training
            metric = read_number(metrics, self._environment.metric)
            self._uploads.add(PendingCheckpoint(self._written, training.iteration, uri, metric))
        self.post()

    @property
    def is_storing(self) -> bool:
        """Whether a checkpoint is on its way into the bucket."""
        return not self._uploads.queue.is_stored

    @property
    def store_problem(self) -> StoreProblem | None:
        """Why checkpoints can't be stored at present."""
        return self._uploads.problem

    def finish(self) -> None:
        """The program has ended: of one that was told to, nothing but the newest checkpoint is wanted."""
        if self.is_asked_to_leave:
            self.hurry()

    def hurry(self) -> None:
        """Only the newest of the waiting checkpoints counts."""
        self._uploads.hurry()

    def cancel_uploads(self) -> None:
        """There is no time left to store anything."""
        self._uploads.cancel()

    def post(self) -> None:
        """Posts what is not acknowledged and learns from the reply; again if the operator lacks older results."""
        for _ in range(2):
            acked = self._acked
            reply = self._environment.operator.post(self._trial, self._pod, self._build_report())
            if not isinstance(reply, Reply):
                return
            self._learn(reply)
            if self._acked >= acked:
                return

    def find_operator(self) -> None:
        """Posts to an operator that was started anew; where the attempt is over, `_poll` learns from the replies."""
        if self._final is None:
            self.post()
        else:
            self._environment.operator.post(self._trial, self._pod, self._build_report())

    def hand_over(self, *, done: bool = True) -> None:
        """The program has gone on to another trial: tells so until it is told what is next."""
        self._final = self.build_final_commit(done=done)
        self._poll()

    def _poll(self) -> None:
        """Asks what is next, ever less often, unless it was told, or the pod was deleted."""
        self.post()
        if self._final is not None:
            self._polls += 1
            self._environment.clock.call_later(
                min(LONGEST_PATIENCE, FIRST_PATIENCE * 2.0 ** min(self._polls, 10)), self._ask
            )

    def _ask(self) -> None:
        if self._final is not None:
            self._poll()

    def close(self) -> None:
        """Stores nothing and says nothing more: its pod has ended."""
        self._final = None
        self._uploads.close()

    def build_final_commit(self, *, done: bool) -> FinalCommit:
        """The final commit, if nothing more is stored from now on."""
        return FinalCommit(
            attempt=self._attempt,
            seq=self._written,
            acked_seq=self._acked,
            last=self._last,
            checkpoints=self._uploads.queue.commits,
            restored=self._restored,
            store_problem=self.store_problem,
            done=done,
            ledger=self._decisions,
            unstored=self._uploads.queue.unstored,
        )

    def _build_report(self) -> Report:
        sent = [result for result in self._results if result.seq > self._acked]
        return Report(
            self._attempt,
            results=tuple(sent),
            checkpoints=self._uploads.queue.to_report(),
            restored=self._restored,
            store_problem=self.store_problem,
            ledger=self._decisions,
            final=self._final,
            unstored=self._uploads.queue.unstored,
        )

    def _learn(self, reply: Reply) -> None:
        if reply.next is not None:
            self._final = None
            self._begin(reply.next)
            return
        self._acked = reply.acked_seq
        if reply.ledger:
            self._decisions = reply.ledger[-1].number
        if self._results and self._results[0].seq <= reply.durable_seq:
            self._results = [result for result in self._results if result.seq > reply.durable_seq]
        self._uploads.queue.acknowledge(reply.acked_checkpoints)
        self.wants_checkpoint = reply.should_checkpoint
        self.is_asked_to_leave = reply.decision != "CONTINUE"
        if reply.discards:
            self._uploads.discard()
            self._environment.bucket.discard(self._trial, reply.kept or ())
        elif reply.kept and not self._uploads.queue.commits:  # else one may be on its way to being recorded
            self._environment.bucket.keep(self._trial, reply.kept)

    def _make_uploads(self, changed: Callable[[], None]) -> Uploads:
        return Uploads(self._environment, stored=self._store, changed=changed)

    def _store(self, commit: CheckpointCommit) -> None:
        uri = commit.checkpoint.uri
        self._environment.bucket.store(self._trial, uri, self._held.pop(uri))
