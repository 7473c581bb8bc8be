"""The attempt as the agent of a rank above 0 sees it: it stores checkpoints, and reports nothing to the operator.

Results of a gang come from rank 0; what another rank reports is counted, and passed over but for its checkpoint.
"""

from __future__ import annotations

from podtune.agent.state.attempt import HEARTBEAT, Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit


class FollowerAttempt(Attempt):
    """Not thread-safe.

    Attributes:
        ignored: How many results were passed over.
    """

    def __init__(self, attempt_id: str, objective: str, has_store: bool, *, heartbeat: float = HEARTBEAT) -> None:
        super().__init__(attempt_id, objective, has_store, heartbeat=heartbeat)
        self.ignored = 0

    def add(self, line: ResultLine, time: float) -> PendingCheckpoint | None:  # noqa: ARG002 - results are passed over
        """See `Attempt.add`: accepts only what has to be stored."""
        self.done = self.done or line.done
        if not line.is_result:
            return None
        self.ignored += 1
        if line.checkpoint is None:
            return None
        _, step = self._add_iteration(line.metrics, self.ignored)
        pending = PendingCheckpoint(self.ignored, step, line.checkpoint)
        return self.checkpoints.add(pending) if self._has_store else pending

    def commit(self, commit: CheckpointCommit) -> None:
        """See `Attempt.commit`."""
        super().commit(commit)
        self.checkpoints.acknowledge([commit.checkpoint.uri])  # it is rank 0 that commits it, and reports it

    @property
    def is_delivered(self) -> bool:
        """Whether nothing is left to say: always."""
        return True

    @property
    def is_informed(self) -> bool:
        """Whether no answer is waited for: always."""
        return True
