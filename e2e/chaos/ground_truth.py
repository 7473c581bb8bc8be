"""What really happened in the pods, whatever the operator came to hear of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podtune.protocol.messages import CheckpointCommit, Reply, Report


@dataclass
class AttemptTruth:
    """One attempt.

    Attributes:
        restored: The step that it went on from.
        steps: The last iteration that it did.
        values: By iteration, the value that it reported.
        reported: Steps of the checkpoints that it has reported.
        committed: What it has stored.
        heard: Those of them that the operator has recorded, or finds in the attempt's final commit.
        candidates: Steps of the checkpoints that the operator had it restore from.
        ended: How it ended: exit code, or the fault.
        printed: The lines that its program has printed, each with its time before it.
        evaluates: Whether it evaluates what another has trained; its values are scores then.
        is_held: Whether it waits for another pod of its gang, which is about to fall.
        cut_short: Whether its agent was killed while it stored the rest: nobody starts it again then.
        out_of_time: Whether the store refused its agent results or output, which the agent has logged, and the time was
            up that checkpoints.drain gives it.
    """

    trial: str
    number: int
    uid: str
    restored: int = 0
    steps: int = 0
    values: dict[int, float] = field(default_factory=dict)
    reported: list[int] = field(default_factory=list)
    committed: list[CheckpointCommit] = field(default_factory=list)
    heard: set[str] = field(default_factory=set)
    candidates: tuple[int, ...] = ()
    ended: str = ""
    printed: list[str] = field(default_factory=list)
    evaluates: bool = False
    is_held: bool = False
    cut_short: bool = False
    out_of_time: bool = False


@dataclass(frozen=True)
class FormerLife:
    """An experiment that was lost and restored.

    Attributes:
        name: What it was called.
        uid: Below which it has stored things.
    """

    name: str
    uid: str


@dataclass
class GroundTruth:
    """All that happened in the pods of one experiment.

    Attributes:
        accepted: Trials and numbers of attempts whose reports were taken in, in the order of the answers.
        bucket: Checkpoints by URI, with their step.
        deleted: Checkpoints that agents have deleted from the bucket, as they were allowed to.
        damaged: What is wrong with those in the bucket; where they are on a volume.
        unfinished: Files that were never finished, and lie on the volume.
        records: The newest records of the snapshot: of the Experiment by an empty name, of Trials by theirs.
        results: By id of the attempt, the iterations of its results in the bucket, as they are read from there.
        logs: By the same, the lines of its output.
        lives: Of an experiment that was restored: for each life, the oldest first, the iterations of the results that
            are stored of each trial, by its present name.
        told: By name of the trial, the iterations of its results as users read them of all lives together.
    """

    attempts: list[AttemptTruth] = field(default_factory=list)
    accepted: list[tuple[str, int]] = field(default_factory=list)
    bucket: dict[str, int] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, list[int]] = field(default_factory=dict)
    logs: dict[str, list[str]] = field(default_factory=dict)
    lives: list[dict[str, list[int]]] = field(default_factory=list)
    told: dict[str, list[int]] = field(default_factory=dict)

    def of_trial(self, trial: str) -> list[AttemptTruth]:
        """The attempts of a trial, in order."""
        return sorted((attempt for attempt in self.attempts if attempt.trial == trial), key=lambda a: a.number)

    def answered(self, attempt: AttemptTruth, report: Report, reply: Reply) -> None:
        """An attempt's report was taken in."""
        attempt.heard.update(reply.acked_checkpoints)
        mark = (attempt.trial, attempt.number)
        if not self.accepted or self.accepted[-1] != mark:
            self.accepted.append(mark)

    def committed_before(self, attempt: AttemptTruth) -> Mapping[str, int]:
        """The checkpoints of the trial's earlier attempts that the operator had accepted and nobody has deleted."""
        earlier = [other for other in self.of_trial(attempt.trial) if other.number < attempt.number]
        return {uri: self.bucket[uri] for other in earlier for uri in other.heard if uri in self.bucket}
