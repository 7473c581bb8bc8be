"""Kopf's events, decoded by orjson: held against the kopf that is installed."""

from __future__ import annotations

import inspect
import json

import orjson
import pytest
from kopf._cogs.clients import api as kopf_client

from podtune.controllers.watch.event_decoding import decode_events_with_orjson


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_client, "json", json)


def test_this_kopf_decodes_events_where_we_think() -> None:
    assert "yield json.loads(" in inspect.getsource(kopf_client.stream)
    assert inspect.getsource(kopf_client).count("json.loads") == 1


def test_events_are_read_by_orjson_as_they_were_before() -> None:
    line = '{"type": "ADDED", "object": {"metadata": {"name": "e-0", "uid": "\\u00e9"}, "n": [1, 2.5, null, true]}}'
    before = kopf_client.json.loads(line)
    decode_events_with_orjson()
    assert kopf_client.json.loads(line) == before
    with pytest.raises(orjson.JSONDecodeError):
        kopf_client.json.loads("{")


def test_what_is_broken_is_the_error_that_kopf_knows() -> None:
    assert issubclass(orjson.JSONDecodeError, json.JSONDecodeError)
