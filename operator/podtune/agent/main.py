"""The command `podtune-agent`: `run` beside a training program, `restore` before it, others in pods without one."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from podtune.agent import entry
from podtune.agent.checkpoints.lazy_store import make_lazy_store
from podtune.agent.checkpoints.restore import NothingRestored, restore
from podtune.agent.delivery.termination_message import write_reason
from podtune.agent.event_log import EventLog
from podtune.agent.reader_pod.pod import run_reader_pod, run_volume_reading
from podtune.agent.results.result_reader import prepare_directory
from podtune.agent.settings import AgentSettingsError, Settings
from podtune.agent.sidecar.run import Sidecar
from podtune.agent.sidecar.warm_sidecar import WarmSidecar
from podtune.agent.storage_pod.pod import StoragePodSettings, run_storage
from podtune.protocol.agent_environment import ENDPOINT_PORT
from podtune.storage.address import StoreAddress
from podtune.storage.object_store import ObjectStore
from podtune.storage.stores import make_store

if TYPE_CHECKING:
    from podtune.agent.endpoint.server import Endpoint


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one of the commands, with the signals held back (see `entry`); returns the exit code."""
    parser = argparse.ArgumentParser(prog="podtune-agent", description="The agent beside a trial's training program.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="deliver results and checkpoints until the program has ended (sidecar)")
    before = commands.add_parser("restore", help="put the checkpoint in place that the program goes on from")
    for of_a_trial in (run, before):
        of_a_trial.add_argument("variables", nargs="?", default="{}", help="JSON object, adds to the environment")
    commands.add_parser("storage", help="do one job in the bucket, without a trial (pod of its own)")
    commands.add_parser("reader", help="wait until nobody reads the volume any more (pod of a person)")
    commands.add_parser("read-volume", help="answer what is asked of the volume on standard input (in such a pod)")
    given = parser.parse_args(arguments)
    command = given.command
    log = EventLog(time.time, {"command": given.command})
    if command != "run":
        entry.end_at_once()
    try:
        if command == "storage":
            return run_storage(StoragePodSettings.from_environ(os.environ), log, Random(), make_store)
        if command == "reader":
            return run_reader_pod(log)
        if command == "read-volume":
            return run_volume_reading(os.environ, log)
        settings = Settings.from_environ(os.environ, given.variables)
    except AgentSettingsError as error:
        log.error("settings are wrong", message=str(error))
        return 2
    log = EventLog(time.time, {"command": command, **settings.log_context})
    if command == "restore":
        return run_restore(settings, log)
    return run_sidecar(settings, log)


def run_restore(
    settings: Settings, log: EventLog, make_store: Callable[[StoreAddress], ObjectStore] = make_store
) -> int:
    """The init container."""
    try:
        restore(settings, log, Random(), make_store)
    except (NothingRestored, AgentSettingsError, OSError) as error:
        log.error("restore failed", message=str(error))
        _tell_reason(settings, log, str(error))
        return error.exit_code if isinstance(error, NothingRestored) else os.EX_TEMPFAIL
    return 0


def _tell_reason(settings: Settings, log: EventLog, reason: str) -> None:
    try:
        write_reason(settings.termination_log, reason)
    except OSError as error:
        log.error("the termination reason can't be written", message=str(error))


def run_sidecar(settings: Settings, log: EventLog) -> int:
    """The sidecar."""
    threading.excepthook = lambda failure: _give_up(log, failure)
    if settings.reuse:
        WarmSidecar(settings, log, Random(), sys.stdout, make_lazy_store).run(entry.wait)
    else:
        try:
            endpoint = _open_endpoint(settings, log) if settings.sources else None
        except OSError as error:
            message = f"the endpoint for programs can't be opened: {error}; free port {ENDPOINT_PORT} of the pod"
            log.error("endpoint can't be opened", message=message)
            _tell_reason(settings, log, message)
            return os.EX_TEMPFAIL
        Sidecar(settings, log, Random(), sys.stdout, make_lazy_store, endpoint=endpoint).run(entry.wait)
    sys.stdout.flush()
    # Threads that still wait for an answer are of no use any more, and must not hold up the end.
    os._exit(0)


def _open_endpoint(settings: Settings, log: EventLog) -> Endpoint:
    """Answers programs that report over HTTP."""
    from podtune.agent.endpoint.server import Endpoint  # noqa: PLC0415 - takes a while, and few trials need it

    prepare_directory(settings.directory)
    endpoint = Endpoint(settings, log)
    endpoint.start()
    return endpoint


def _give_up(log: EventLog, failure: threading.ExceptHookArgs) -> None:
    """Ends the agent when one of its threads has failed: the kubelet restarts it, and it reads everything again."""
    trace = "".join(traceback.format_exception(failure.exc_type, failure.exc_value, failure.exc_traceback))
    log.error(
        "agent failed",
        thread=failure.thread.name if failure.thread else "",
        message=f"{failure.exc_type.__name__}: {failure.exc_value}",
        exception=trace,
    )
    os._exit(1)
