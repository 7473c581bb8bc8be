"""What a receiver of webhooks or a collector answers is told without what it repeats of our own headers."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from podtune.cluster.http_poster import split_address
from podtune.tracing.collector import Collector
from podtune.tracing.sender import SpanSender
from podtune.webhooks.receivers import Receiver
from podtune.webhooks.sender import WebhookSender
from tests.unit.cluster.echoing_server import ECHOES, EchoingServer

MARK = "marked-2f7c"
"""In each secret value."""
FILES = {"token": f"token-{MARK}", "headers": f"api-key=header-{MARK}"}
_Send = Callable[[str, Path], Awaitable[object]]


async def deliver_event(url: str, secrets: Path) -> object:
    sender = WebhookSender(Receiver(name="tracker", url=url, secrets=secrets), time.time)
    try:
        return await sender.send([{"id": "1"}])
    finally:
        await sender.close()


async def export_span(url: str, secrets: Path) -> object:
    sender = SpanSender(Collector(endpoint=url, secrets=secrets))
    try:
        return await sender.send([b""])
    finally:
        await sender.close()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("way", ECHOES)
@pytest.mark.parametrize("send", [deliver_event, export_span])
async def test_an_answer_that_repeats_our_headers_is_told_without_them(
    send: _Send, way: str, secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with EchoingServer().up() as server:
        result = repr(await send(server.address(way), secrets))
    assert MARK in server.heads[way], "it has not been sent, so there was nothing to repeat"
    assert MARK not in result
    assert MARK not in caplog.text


@pytest.mark.parametrize("file", ["token", "signingKey", "headers"])
@pytest.mark.parametrize("text", ["{}\n{}", "{}\x00", "{}\N{LATIN SMALL LETTER U WITH DIAERESIS}", "{}"])
@pytest.mark.parametrize("send", [deliver_event, export_span])
async def test_a_secret_that_can_not_be_sent_is_told_without_it(
    send: _Send, text: str, file: str, secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (secrets / file).write_text(text.replace("{}", MARK))
    async with EchoingServer().up() as server:
        result = repr(await send(server.address("no-http"), secrets))
    assert MARK not in result
    assert MARK not in caplog.text


@pytest.mark.parametrize("send", [deliver_event, export_span])
async def test_a_server_that_is_away_is_told_without_a_secret(send: _Send, secrets: Path) -> None:
    async with EchoingServer().up() as server:
        pass
    result = repr(await send(server.address("no-http"), secrets))
    assert "Cannot connect" in result
    assert MARK not in result


def test_an_address_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(ValueError, match="is not an address") as error:
        split_address(f"https://me:{MARK}#1@events.example.com", "https://events.example.com")
    assert MARK not in str(error.value)
