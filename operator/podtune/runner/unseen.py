"""What was asked of the API server for a trial and is not seen yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from podtune.api.trial import TrialStatus


@dataclass(slots=True)
class Unseen:
    """What no object tells of: what is under way, and which pods are gone.

    It outlives the machine that asked, which may be made anew at any time.

    Attributes:
        statuses: Statuses that are being written, or may have been, onto the version that is known.
        deletions: UIDs of pods whose deletion was accepted.
        creation_until: Until then, a pod whose creation got no answer, or that a status names, may still show up.
        gone: UIDs of pods that are gone: later news of them is old news.
        listening: UID of the attempt whose agent is listened for, and since when; infinitely long once it was heard.
    """

    statuses: list[TrialStatus] = field(default_factory=list)
    deletions: set[str] = field(default_factory=set)
    creation_until: float = 0.0
    gone: set[str] = field(default_factory=set)
    listening: tuple[str, float] = ("", 0.0)

    def heard(self, uid: str) -> None:
        """The agent of this attempt has reported."""
        self.listening = (uid, float("-inf"))

    def deaf_until(self, uid: str, now: float, patience: float) -> float:
        """Until when silence of an attempt means nothing, since its agent may not have found us yet."""
        if self.listening[0] != uid:
            self.listening = (uid, now)
        return self.listening[1] + patience
