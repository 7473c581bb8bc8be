"""The agent of a simulated pod whose operator may be away, and whose reports and their answers may be lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from typing_extensions import override

from podtune.protocol.messages import (
    NOT_RESTORABLE,
    UNACKED_PREFIX,
    CheckpointCommit,
    Phase,
    Reply,
    Report,
    Restored,
    RestoreFailure,
    StoreProblem,
    encode_result,
)
from podtune.runner.experiment_machine import Unaccepted
from podtune.simulation.agent import Agent
from tests.unit.runner.world.simulated_uploads import Snag, SnaggedUploads

if TYPE_CHECKING:
    from tests.unit.runner.world.simulated_pod import SimulatedPod
    from tests.unit.runner.world.simulation import Simulation

POST_SECONDS, REMINDER = 0.05, 1.0
"""Until a report is posted; until what was not acknowledged is said again."""


class DistantAgent(Agent):
    """Speaks for one attempt, until it is told that the attempt counts no more.

    Attributes:
        uploads: Its checkpoints on their way.
        decisions: Numbers of those that it has heard of; they are in the bucket.
        fenced: Whether the attempt counts no more.
        is_due: Whether a report is about to be posted.
        words: What it has written down since the program's end, should it be killed before it says more.
    """

    def __init__(
        self, simulation: Simulation, pod: SimulatedPod, attempt: str, restored: Restored, snag: Snag | None
    ) -> None:
        self._sim, self._owner, self._snag = simulation, pod, snag
        self.decisions: list[int] = []
        self.fenced = self.is_due = self._is_done = False
        self.words = ""
        super().__init__(
            simulation.environment, pod.trial, pod.name, attempt, restored, begin=pod.take_up, stored=pod.check_stored
        )

    @override
    def post(self) -> None:
        """Posts soon, unless nobody is there to say anything."""
        if not self.is_due and not self.fenced and self._owner.may_speak:
            self._send_after(self._sim.jitter(POST_SECONDS))

    def write_words(self, *, done: bool) -> str:
        """Writes down its final commit."""
        self._is_done = done
        self.words = self.build_final_commit(done=done).to_json()
        return self.words

    @property
    def lines(self) -> tuple[str, ...]:
        """What it prints at its end: results that are not durable."""
        return tuple(UNACKED_PREFIX + encode_result(result) for result in self._results)

    @property
    def has_taken(self) -> bool:
        """Whether the program has reported anything."""
        return self._written > 0

    @property
    def hands_over(self) -> bool:
        """Whether it waits to be told what is next."""
        return self._final is not None

    @property
    @override
    def store_problem(self) -> StoreProblem | None:
        return super().store_problem or self._owner.store_problem

    def _send_after(self, delay: float) -> None:
        self.is_due = True
        self._environment.clock.call_later(delay, self._send)

    def _send(self) -> None:
        """Posts what is unacknowledged, and learns from the reply, unless one of the two is lost on its way."""
        self.is_due = False
        if not self._owner.may_speak or self.fenced or self._owner.agent is not self:
            return
        answer = self._environment.operator.post(self._trial, self._pod, self._build_report())
        if answer is Unaccepted.FENCED:
            self.fenced = True
            self.close()
            self._owner.conclude_draining()
        elif isinstance(answer, Reply):
            self._learn(answer)
        if self._final is not None:
            self._polls += 1
            self._send_after(0.02 * 1.5 ** min(self._polls, 10))
        elif not self.is_due and (self._acked < self._written or self._uploads.queue.commits):
            self._send_after(REMINDER)

    @override
    def _poll(self) -> None:
        self.post()

    @override
    def _build_report(self) -> Report:
        failure = None if self._owner.can_start else RestoreFailure(NOT_RESTORABLE, "its manifest is missing")
        phase: Phase = "Training" if self._owner.is_alive else "Draining"
        return replace(super()._build_report(), phase=phase, restore_failure=failure)

    @override
    def _learn(self, reply: Reply) -> None:
        super()._learn(reply)
        self.decisions += [entry.number for entry in reply.ledger]

    @override
    def _make_uploads(self, changed: Callable[[], None]) -> SnaggedUploads:
        self.uploads = SnaggedUploads(
            self._environment, self._snag, self._sim.jitter, stored=self._store, changed=changed
        )
        return self.uploads

    @override
    def _store(self, commit: CheckpointCommit) -> None:
        super()._store(commit)
        if self.words:
            self.write_words(done=self._is_done)
