"""What a browser has to get before it can show a page."""

from __future__ import annotations

import re

import pytest

from tests.unit.dashboard.archives import BASE, Client, make_source, read_page, serve

MOST = 60_000
"""Bytes of scripts and styles, compressed."""


@pytest.mark.parametrize("path", ["/", f"{BASE}/", f"{BASE}/parameters", f"{BASE}/trials", f"{BASE}/trials/digits-1"])
async def test_the_scripts_and_styles_of_a_page_are_small(path: str) -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, path)
        files = set(re.findall(r'(?:src|href)="[./]*(static/[^"]+)"', page))
        assert any(".css" in file for file in files)
        assert sum([await weigh(client, file) for file in files]) <= MOST


async def weigh(client: Client, file: str) -> int:
    answer = await client.get(f"/{file}", headers={"Accept-Encoding": "gzip"})
    assert answer.status == 200
    imported = re.findall(r'from "\./([^"]+)"', text := await answer.text())
    size = int(answer.headers.get("Content-Length", len(text.encode())))
    return size + sum([await weigh(client, f"static/scripts/{name}") for name in set(imported)])
