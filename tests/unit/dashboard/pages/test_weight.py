"""What a browser has to get before it can show a page."""

from __future__ import annotations

import re
from urllib.parse import urljoin

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


async def test_browsers_keep_all_that_a_page_asks_for_until_there_is_another_version() -> None:
    async with serve(make_source()) as client:
        page = await read_page(client, f"{BASE}/parameters")
        files = {urljoin(f"{BASE}/", file) for file in re.findall(r'(?:src|href)="([^"]*static/[^"]+)"', page)}
        scripts = [file for file in files if file.endswith(".js")]
        for script in scripts:
            imported = re.findall(r'from "([^"]+)"', await read_page(client, script))
            scripts += {urljoin(script, name) for name in imported} - {*scripts}
        assert any(script.endswith("/elements.js") for script in scripts)
        for file in files | {*scripts}:
            assert (await client.get(file)).headers["Cache-Control"] == "public, max-age=86400, immutable", file
            other = await client.get(re.sub("[0-9a-f]{12}", "0123456789ab", file))
            assert (other.status, other.headers["Cache-Control"]) == (200, "no-cache")
