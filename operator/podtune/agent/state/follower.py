"""The attempt as the agent of a rank above 0 sees it: it stores things, and reports nothing to the operator.

A gang's results come from rank 0; what another rank reports may be stored, and is counted for nothing else.
"""

from __future__ import annotations

from podtune.agent.state.attempt import HEARTBEAT, AddedLine, Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint_queue import PendingCheckpoint
from podtune.protocol.messages import CheckpointCommit


class FollowerAttempt(Attempt):
    """Not thread-safe.

    Attributes:
        ignored: How many results the operator was not told of.
    """

    def __init__(self, attempt_id: str, objective: str, has_store: bool, *, heartbeat: float = HEARTBEAT) -> None:
        super().__init__(attempt_id, objective, has_store, heartbeat=heartbeat)
        self.ignored = 0

    def add(self, line: ResultLine, time: float) -> AddedLine:
        """See `Attempt.add`: nothing is put on its way to the operator."""
        self.done = self.done or line.done
        if not line.is_result:
            return AddedLine()
        self.ignored += 1
        result = self._make_result(line, self.ignored, time)
        if line.checkpoint is None:
            return AddedLine(result)
        pending = PendingCheckpoint(result.seq, result.step, line.checkpoint)
        return AddedLine(result, self.checkpoints.add(pending) if self._has_store else pending)

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
