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
        creation_until: Until then, a pod whose creation got no answer may still show up.
        gone: UIDs of pods that are gone: later news of them is old news.
    """

    statuses: list[TrialStatus] = field(default_factory=list)
    deletions: set[str] = field(default_factory=set)
    creation_until: float = 0.0
    gone: set[str] = field(default_factory=set)
