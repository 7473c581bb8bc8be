"""What a restore container leaves for the program and for the agent: the file `restore.json`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from podtune.agent.state.training_time import parse_seconds
from podtune.protocol.fields import read_count, read_object
from podtune.protocol.messages import Restored, parse_restored
from podtune.storage.directory import Directory
from podtune.trial import layout

_MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class RestoreInfo:
    """What an attempt starts from.

    Attributes:
        time_total: Seconds of training up to it, over all attempts.
    """

    restored: Restored = field(default_factory=Restored)
    iteration: int = 0
    time_total: float = 0.0

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
        body = read_object(json.loads(directory.read_file(layout.RESTORE_INFO, _MAX_BYTES)), layout.RESTORE_INFO)
    except FileNotFoundError:
        return None
    time_total = parse_seconds(body.get("time_total", 0.0))
    if time_total is None:
        raise ValueError(f"time_total in {layout.RESTORE_INFO} is {body.get('time_total')!r}, not a number of seconds")
    return RestoreInfo(parse_restored(body.get("restored")), read_count(body, "iteration"), time_total)
