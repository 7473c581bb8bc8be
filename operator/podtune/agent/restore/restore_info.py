"""What a restore container leaves for the program and for the agent: the file `restore.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from podtune.agent.results.training_time import seconds
from podtune.protocol.messages import Restored
from podtune.storage.directory import Directory
from podtune.trial import layout

MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RestoreInfo:
    """What an attempt starts from.

    Attributes:
        step: Step of the restored checkpoint; 0 for a fresh start.
        uri: Where it was; empty for a fresh start.
        iteration: Iterations of the trial up to it.
        message: What went wrong on the way, if anything.
        time_total_s: Seconds of training up to it, over all attempts.
        digest: Of its manifest, where the agent has found it by itself; else empty.
        metric: Value of the objective's metric with it, likewise.
    """

    step: int = 0
    uri: str = ""
    iteration: int = 0
    message: str = ""
    time_total_s: float = 0.0
    digest: str = ""
    metric: str = ""

    @property
    def restored(self) -> Restored:
        """The same for the operator."""
        return Restored(self.step, self.uri, self.message, self.digest, self.metric)

    def write(self, directory: Directory) -> None:
        """Writes the file whole.

        Raises:
            OSError: It can't be written.
        """
        directory.replace_file(layout.RESTORE_INFO, json.dumps(asdict(self)).encode())


def read_restore_info(directory: Directory) -> RestoreInfo | None:
    """Reads the file; None while it isn't there.

    Raises:
        ValueError: It does not hold what `RestoreInfo.write` writes.
        OSError: It can't be read.
    """
    try:
        body = json.loads(directory.read_file(layout.RESTORE_INFO, MAX_BYTES))
    except FileNotFoundError:
        return None
    if not isinstance(body, dict):
        raise ValueError(f"{layout.RESTORE_INFO} is not a JSON object")
    return RestoreInfo(
        step=_count(body, "step"),
        uri=str(body.get("uri", "")),
        iteration=_count(body, "iteration"),
        message=str(body.get("message", "")),
        time_total_s=_seconds(body, "time_total_s"),
        digest=str(body.get("digest", "")),
        metric=str(body.get("metric", "")),
    )


def _count(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 53:
        raise ValueError(f"{name} in restore.json is {value!r}, not a whole number from 0")
    return value


def _seconds(body: dict[str, Any], name: str) -> float:
    value = seconds(body.get(name, 0.0))
    if value is None:
        raise ValueError(f"{name} in restore.json is {body[name]!r}, not a number of seconds from 0")
    return value
