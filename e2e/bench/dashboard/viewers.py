"""People who keep a page open: each hears of news, and fetches the page anew, as its script does."""

from __future__ import annotations

import asyncio
import re
import time
import zlib
from dataclasses import dataclass, field

import aiohttp

PACE = 1.0
_GZIP = 31
_REVISION = re.compile(rb'data-revision="([^"]+)"')


@dataclass
class Watched:
    """What viewers have seen.

    Attributes:
        revisions: Those that they were told.
        waits: Seconds from news to the page that shows it, one for each page.
    """

    revisions: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)


async def watch(page: str, viewers: int, seconds: float) -> Watched:
    """Has so many viewers follow a page for so long."""
    seen = Watched()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=timeout) as session:
        following = [asyncio.ensure_future(_follow(session, page, seen)) for _ in range(viewers)]
        done, _ = await asyncio.wait(following, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        for each in done:
            each.result()
    return seen


async def _follow(session: aiohttp.ClientSession, page: str, seen: Watched) -> None:
    revision = _REVISION.search(zlib.decompress(await _fetch(session, page), _GZIP))
    if revision is None:
        raise ValueError(f"{page} does not follow anything")
    async with session.get(f"{page}events", params={"since": revision[1].decode()}) as stream:
        async for line in stream.content:
            if not line.startswith(b"data: "):
                continue
            seen.revisions.add(line.removeprefix(b"data: ").decode().strip())
            since = time.monotonic()
            await _fetch(session, page)
            seen.waits.append(time.monotonic() - since)
            await asyncio.sleep(PACE)


async def _fetch(session: aiohttp.ClientSession, page: str) -> bytes:
    async with session.get(page, headers={"Accept-Encoding": "gzip"}) as answer:
        answer.raise_for_status()
        return await answer.read()
