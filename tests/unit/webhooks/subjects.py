"""Experiments and Trials to be told of, as an operator that has just started reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podtune.api.names import TrialState
from podtune.api.resources.trial import Checkpoint, TrialStatus
from podtune.cluster.decoders import decode_trial
from podtune.protocol.messages import Result
from podtune.runner.records import Trial
from podtune.runner.transitions import record_of_trial
from podtune.runner.trial.results import extend_curve
from podtune.webhooks.events import CloudEvent, Subject
from podtune.webhooks.kept_events import decode_kept_events
from podtune.webhooks.outbox import ReceiverOutbox
from podtune.webhooks.positions import Positions
from podtune.webhooks.receivers import Receiver
from tests.unit.cluster.objects import experiment_record, trial_body

EXPERIMENT = experiment_record()
RECEIVER = Receiver(name="tracker", url="http://127.0.0.1/")


@dataclass
class WrittenTrial:
    """A Trial whose status is written again and again, and read back from what was written.

    Attributes:
        index: Its index.
        uid: Its UID.
        status: What was written last.
    """

    index: int = 0
    uid: str = "t-0"
    status: TrialStatus = field(default_factory=TrialStatus)

    def turn(self, state: TrialState, attempt: int = 1, reason: str = "Because") -> WrittenTrial:
        """It has another state."""
        changed = self.status.model_copy(update={"state": state, "attempt": attempt, "reason": reason})
        self.status = record_of_trial(changed, self.status, f"2026-01-01T00:00:{len(changed.transitions):02}Z")
        return self

    def report(self, step: int, value: float) -> WrittenTrial:
        """It has a result more."""
        result = Result(seq=step, step=step, time=0.0, metrics={"accuracy": value, "time_total_s": step * 1.5})
        curve = extend_curve(self.status, result, ["accuracy"])
        self.status = self.status.model_copy(update={"curve": curve, "iteration": step})
        return self

    def store(self, step: int) -> WrittenTrial:
        """It has a checkpoint more; two are kept."""
        checkpoint = Checkpoint(step=step, uri=f"s3://bucket/{self.uid}/{step}", digest=f"sha256:{step}")
        kept = [*self.status.checkpoints, checkpoint][-2:]
        self.status = self.status.model_copy(update={"checkpoints": kept})
        return self

    def read(self) -> Trial:
        """The Trial as whoever asks the API server has it."""
        body = trial_body(self.index, self.uid)
        return decode_trial(
            body | {"status": self.status.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
        )

    @property
    def subject(self) -> Subject:
        """It, to be told of."""
        return Subject(EXPERIMENT, self.read())


def make_outbox(kept: dict[str, str] | None = None, held: bytes = b"", **fields: Any) -> ReceiverOutbox:
    """An outbox that goes on from what was kept."""
    return ReceiverOutbox(RECEIVER.model_copy(update=fields), Positions(kept or {}), decode_kept_events(held))


def hear(outbox: ReceiverOutbox, limit: int = 1000) -> list[CloudEvent]:
    """Everything that is due, as a receiver that takes it hears it."""
    heard: list[CloudEvent] = []
    while len(outbox):
        batch = outbox.take(limit)
        heard += batch.events
        outbox.confirm(batch)
    return heard
