"""The agent of a simulated pod: has results and checkpoints taken in, and keeps what might have to be sent again."""

from __future__ import annotations

from collections.abc import Callable

from podtune.protocol.assignment import Assignment, attempt_folder
from podtune.protocol.messages import CheckpointCommit, FinalCommit, Reply, Report, Restored, Result, Unstored
from podtune.simulation.site import Site
from podtune.simulation.training import Training

DIGEST = "sha256:simulated"
FIRST_PATIENCE, LONGEST_PATIENCE = 0.02, 1.0
"""Seconds until a pod that has nothing to do asks again, at first and at last."""


class Agent:
    """Speaks for one attempt. No message is lost, but an operator that was started anew has to hear some again."""

    def __init__(
        self,
        site: Site,
        trial: str,
        pod: str,
        attempt: str,
        restored: Restored,
        *,
        begin: Callable[[Assignment], None],
    ) -> None:
        """Makes an agent that has nothing to say yet.

        Args:
            site: Where its pod lives.
            trial: Name of the trial.
            pod: Name of the pod.
            attempt: The attempt's id.
            restored: What was restored.
            begin: Begins with the next attempt, in a pod that is reused.
        """
        self._site = site
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
        self._uploading: dict[int, tuple[CheckpointCommit, Training]] = {}
        self._commits: list[CheckpointCommit] = []
        self._decisions = 0
        """Number of the last decision on the trial that it has heard of."""
        self.wants_checkpoint = False
        """Whether the program is asked to take a checkpoint."""
        self.is_asked_to_leave = False
        """Whether a stop or a pause was decided."""

    def take(self, metrics: dict[str, float | int | str | bool], training: Training, *, checkpoint: bool) -> int:
        """Takes in a result of the program's, perhaps with a checkpoint, and posts it.

        Returns:
            The result's number; its checkpoint, if it has one, is to be `uploaded` later.
        """
        self._written += 1
        result = Result(self._written, self._site.clock.now, metrics, training.iteration, checkpoint)
        self._results.append(result)
        if checkpoint:
            self.wants_checkpoint = False
            uri = f"{self._site.prefix}{self._trial}/{attempt_folder(self._attempt)}/{training.iteration}"
            commit = CheckpointCommit(training.iteration, self._written, uri, DIGEST)
            self._uploading[self._written] = (commit, training)
        self.post()
        return self._written

    def uploaded(self, seq: int) -> None:
        """The checkpoint that came with a result is in the bucket."""
        if self._upload(seq):
            self.post()

    def post(self) -> None:
        """Posts what is not acknowledged and learns from the reply; again if the operator lacks older results."""
        for _ in range(2):
            acked = self._acked
            reply = self._site.operator.post(self._trial, self._pod, self._report())
            if reply is None:
                return
            self._learn(reply)
            if self._acked >= acked:
                return

    def find_operator(self) -> None:
        """Tells an operator that was started anew what it lacks; one that asks what is next keeps to its times."""
        if self._final is None:
            self.post()
        else:
            self._site.operator.post(self._trial, self._pod, self._report())

    def hand_over(self) -> None:
        """The program has gone on to another trial: tells so until it is told what is next."""
        self._final = self.last_words(done=True)
        self._poll()

    def _poll(self) -> None:
        """Asks what is next, ever less often, unless it was told, or the pod was deleted."""
        self.post()
        if self._final is not None:
            self._polls += 1
            self._site.clock.after(min(LONGEST_PATIENCE, FIRST_PATIENCE * 2.0 ** min(self._polls, 10)), self._ask)

    def _ask(self) -> None:
        if self._final is not None:
            self._poll()

    def close(self) -> None:
        """Says nothing more: its pod has ended."""
        self._final = None

    def last_words(self, *, done: bool) -> FinalCommit:
        """The final commit, after the last uploads."""
        for seq in list(self._uploading):
            self._upload(seq)
        return FinalCommit(
            attempt=self._attempt,
            seq=self._written,
            acked_seq=self._acked,
            last=self._results[-1] if self._results else None,
            checkpoints=tuple(self._commits[-4:]),
            restored=self._restored,
            done=done,
            ledger=self._decisions,
            unstored=self._unstored(),
        )

    def _unstored(self) -> Unstored | None:
        """What the program has reported since the newest stored checkpoint: one is stored after the other."""
        if not self._uploading:
            return None
        seq, (commit, _) = list(self._uploading.items())[-1]
        return Unstored(next(iter(self._uploading)), seq, commit.step, waits=True)

    def _report(self) -> Report:
        sent = [result for result in self._results if result.seq > self._acked]
        return Report(
            self._attempt,
            results=tuple(sent),
            checkpoints=tuple(self._commits),
            restored=self._restored,
            ledger=self._decisions,
            final=self._final,
            unstored=self._unstored(),
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
        if self._commits:
            self._commits = [commit for commit in self._commits if commit.uri not in reply.acked_checkpoints]
        self.wants_checkpoint = reply.should_checkpoint
        self.is_asked_to_leave = reply.decision != "CONTINUE"
        if reply.kept:
            self._site.bucket.keep(self._trial, reply.kept)

    def _upload(self, seq: int) -> bool:
        found = self._uploading.pop(seq, None)
        if found is None:
            return False
        commit, training = found
        self._site.bucket.store(self._trial, commit.uri, training)
        self._commits.append(commit)
        return True
