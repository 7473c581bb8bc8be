"""The state of a trial's current attempt, which ends with it: each attempt has its own object."""

from __future__ import annotations

from dataclasses import dataclass, field

from podtune.protocol.messages import Restored, Result, StoreProblem
from podtune.runner.actions import Logs
from podtune.runner.attempts.pods import AttemptPods


@dataclass(slots=True)
class AttemptState:
    """The current attempt of a trial, or the next one where none has begun.

    Attributes:
        pods: Its pods as they were last seen; those that are gone stay until it has ended.
        uid: Its id; empty before its leading pod is known.
        acked_seq: Sequence number of the last result that was taken in.
        restored: What it started from, once its agent has said so.
        store_problem: What keeps its checkpoints from being stored at present.
        store_problem_since: Since when something does.
        wanted_step: A checkpoint of this step or a later one is worth having.
        held: Results after the one that the scheduler has paused the trial at.
        logs: What its containers have printed, once that was fetched.
        printed: What the program had printed last when its end was decided; None where that was not read.
    """

    pods: AttemptPods
    uid: str = ""
    acked_seq: int = 0
    restored: Restored | None = None
    store_problem: StoreProblem | None = None
    store_problem_since: float = 0.0
    wanted_step: int | None = None
    held: list[Result] = field(default_factory=list)
    logs: Logs | None = None
    printed: str | None = None

    @property
    def has_reported(self) -> bool:
        """Whether it has handed over results: so its program runs, which the kubelet tells later."""
        return self.acked_seq > 0

    @property
    def log_tail(self) -> str:
        """The last lines that the program is known to have printed."""
        return (self.logs.program_tail if self.logs else "") or self.printed or ""
