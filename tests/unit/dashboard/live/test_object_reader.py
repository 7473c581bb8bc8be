"""What is read for a viewer on request."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from podtune.cli.errors import CliError
from podtune.dashboard.live.object_reader import TokenReader


def test_nothing_is_read_for_who_has_no_token() -> None:
    def connect_as(token: str) -> None:
        raise AssertionError(f"{token} is nobody's")

    reader = TokenReader(connect_as)  # type: ignore[arg-type]
    with pytest.raises(CliError, match="with your own token"):
        reader.read_manifest(make_mocked_request("GET", "/"), "team", "digits-1")
