"""The operator's process: settings, logs, signals, and what it exits with."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

import structlog
import uvloop

from podtune.app.garbage import collect_in_small_portions
from podtune.app.operator import Operator
from podtune.app.servers import CannotListen
from podtune.app.settings import Settings, SettingsError, read_settings
from podtune.cluster.client import KubernetesClient
from podtune.cluster.lease import LeaseLost
from podtune.kube.errors import ApiError
from podtune.results.tls.chain import CertificateError

log = structlog.get_logger(__name__)

SWITCH_SECONDS = 0.001
"""How long a thread that computes, such as a search algorithm, may keep the event loop waiting when it has the turn.

The interpreter's own 5 ms cost a busy loop most of its turns, as soon as there is one such thread.
"""
EXPECTED = (ApiError, CannotListen, CertificateError, LeaseLost)
"""What ends the operator without being an error of its own: a sentence says it all."""


def main() -> None:
    """Entry point of `podtune-operator`; exits with 0 after SIGTERM or SIGINT, with 1 when it can't go on."""
    try:
        settings = read_settings()
    except SettingsError as error:
        sys.exit(f"podtune-operator: {error}")
    _configure_logging(settings.log_level)
    collect_in_small_portions()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        uvloop.run(_run(settings))
    except Exception as error:
        for failure in _list_failures(error):
            log.error(
                "operator ends", message=str(failure), exc_info=None if isinstance(failure, EXPECTED) else failure
            )
        sys.exit(1)


def _configure_logging(level: str) -> None:
    """Has our own events and the libraries' written to stderr, one JSON object a line."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="time"),
        structlog.processors.format_exc_info,
        _name_component,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=number, handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("kopf").setLevel(max(number, logging.WARNING))


def _name_component(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """A processor: says which program it is, as logs of several may be mixed; what all lines have comes first."""
    common = {name: event[name] for name in ("time", "level", "event")}
    return {**common, "component": "operator", **event}


async def _run(settings: Settings) -> None:
    stop = asyncio.Event()

    def listen_to_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

    listen_to_signals()
    rng = random.Random()
    client, lease_client = await KubernetesClient.connect(rng), await KubernetesClient.connect(rng)
    try:
        await Operator(settings, client, lease_client, rng).run(stop, listen_to_signals)
    finally:
        await client.close()
        await lease_client.close()


def _list_failures(error: Exception) -> Iterator[Exception]:
    """The exceptions in a group, whatever is nested in it."""
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _list_failures(inner)
    else:
        yield error


if __name__ == "__main__":
    main()
