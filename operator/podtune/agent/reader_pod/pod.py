"""The commands of the pod through which a person reads a volume: one keeps the pod alive, one answers.

The person's command line creates the pod with that person's own rights, and runs `read-volume` in it for each
connection. When that breaks, standard input ends, and so does the process; a pod without any ends itself soon after.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from podtune.agent.event_log import EventLog
from podtune.agent.settings import AgentSettingsError
from podtune.protocol import agent_environment as env
from podtune.storage.address import VolumeAddress, parse_store_address
from podtune.storage.errors import StoreSettingsError
from podtune.storage.volume.reading_protocol import Garbled
from podtune.storage.volume.reading_server import answer_requests
from podtune.storage.volume.store import VolumeStore

READERLESS_SECONDS = 60.0
"""After this time without a connection the pod ends."""
_LOOK_SECONDS = 1.0


def run_reader_pod(
    log: EventLog,
    *,
    count_readers: Callable[[], int] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Waits until nobody has read for a while; returns the exit code."""
    count = count_readers or count_other_processes
    last = clock()
    log.info("waiting for readers")
    while clock() - last < READERLESS_SECONDS:
        sleep(_LOOK_SECONDS)
        if count():
            last = clock()
    log.info("nobody reads any more")
    return 0


def count_other_processes(processes: Path = Path("/proc")) -> int:
    """How many processes the container has besides this one."""
    return sum(entry.name.isdecimal() and int(entry.name) != os.getpid() for entry in processes.iterdir())


def run_volume_reading(environ: Mapping[str, str], log: EventLog) -> int:
    """Answers on standard output what is asked on standard input; returns the exit code."""
    store = VolumeStore(_read_address(environ))
    try:
        answer_requests(store, sys.stdin.buffer, sys.stdout.buffer)
    except Garbled as error:
        log.error("what was asked makes no sense", message=str(error))
        return 1
    except OSError:  # nobody is there any more
        with suppress(OSError):
            sys.stdout.close()
    return 0


def _read_address(environ: Mapping[str, str]) -> VolumeAddress:
    try:
        address = parse_store_address(environ.get(env.STORE, ""))
    except StoreSettingsError as error:
        raise AgentSettingsError(f"{env.STORE} is wrong: {error}") from error
    if not isinstance(address, VolumeAddress):
        raise AgentSettingsError(f"{env.STORE} is of {address.where}, which is no volume; a reader pod mounts one")
    return address
