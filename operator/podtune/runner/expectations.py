"""What is expected soon: the effects of requests to the API server, and reports from agents."""

from __future__ import annotations

from dataclasses import dataclass, field

from podtune.api.resources.trial import TrialStatus
from podtune.protocol.messages import Unstored


@dataclass(slots=True)
class Expectations:
    """Tracks what no object records: requests under way, and pods that are gone.

    It survives the machine, which may be rebuilt at any time.

    Attributes:
        statuses: Statuses that are being written, or may have been, onto the version that is known.
        deletions: UIDs of pods whose deletion was accepted.
        pod_expected_until: Until then, a pod whose creation got no answer, or that a status names, may still show up.
        gone: UIDs of pods that are gone: later news of them is old news.
        listening: UID of the attempt whose agent is expected to report, and since when; minus infinity once it has.
        unstored: UID of the attempt whose agent has reported last, and which checkpoints it had not stored then.
        answer: UID of an attempt that is to pause, and the `seq` of the checkpoint that its program has reported then.
    """

    statuses: list[TrialStatus] = field(default_factory=list)
    deletions: set[str] = field(default_factory=set)
    pod_expected_until: float = 0.0
    gone: set[str] = field(default_factory=set)
    listening: tuple[str, float] = ("", 0.0)
    unstored: tuple[str, Unstored | None] = ("", None)
    answer: tuple[str, int] = ("", 0)

    def observe_report(self, uid: str, unstored: Unstored | None) -> None:
        """The agent of this attempt has reported."""
        self.listening = (uid, float("-inf"))
        self.unstored = (uid, unstored)

    def find_unstored(self, uid: str) -> Unstored | None:
        """The checkpoints of an attempt that were not stored when its agent reported last."""
        return self.unstored[1] if self.unstored[0] == uid else None

    def find_answer(self, uid: str, asked_after: int) -> int:
        """The `seq` of the first checkpoint that was seen to be reported after a pause was decided; 0 for none yet.

        Args:
            uid: The attempt.
            asked_after: The `seq` of the last result before the decision.
        """
        unstored = self.find_unstored(uid)
        if self.answer[0] != uid and unstored is not None and unstored.seq > asked_after:
            self.answer = (uid, unstored.seq)
        return self.answer[1] if self.answer[0] == uid else 0

    def compute_silence_deadline(self, uid: str, now: float, patience: float) -> float:
        """Until when an attempt's silence means nothing, because its agent may not have reached the operator yet."""
        if self.listening[0] != uid:
            self.listening = (uid, now)
        return self.listening[1] + patience
