"""What the chart writes of receivers is read, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from podtune.webhooks.receivers import Receiver, ReceiverError, parse_receivers

GOOD = {"name": "tracker", "url": "https://events.example.com/podtune"}


def test_a_receiver_of_all_is_a_name_and_an_address() -> None:
    (receiver,) = parse_receivers(json.dumps([GOOD]))
    assert receiver == Receiver(name="tracker", url="https://events.example.com/podtune")
    assert receiver.serves("any")
    assert receiver.wants("dev.podtune.trial.result")
    assert (receiver.batch_size, receiver.retry_seconds, receiver.secrets) == (1, 86_400, None)


def test_everything_that_can_be_chosen_is_read() -> None:
    chosen: dict[str, Any] = {
        "namespaces": ["team-*"],
        "types": ["dev.podtune.experiment.*"],
        "batchSize": 50,
        "retrySeconds": 60,
        "secrets": "/etc/podtune/webhooks/tracker",
    }
    (receiver,) = parse_receivers(json.dumps([GOOD | chosen]))
    assert (receiver.serves("team-a"), receiver.serves("other")) == (True, False)
    assert (receiver.wants("dev.podtune.experiment.failed"), receiver.wants("dev.podtune.trial.error")) == (True, False)
    assert (receiver.batch_size, receiver.retry_seconds) == (50, 60)
    assert receiver.secrets == Path("/etc/podtune/webhooks/tracker")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "write a list of receivers"),
        ("{}", "write a list of receivers"),
        (json.dumps([{"name": "x"}]), r"\[0\].url"),
        (json.dumps([GOOD | {"url": "ftp://example.com"}]), r"\[0\].url: 'ftp://example.com' is not an address; write"),
        (json.dumps([GOOD | {"url": "https:///path"}]), "is not an address"),
        (json.dumps([GOOD | {"url": "http://example.com:99999/"}]), "is not an address"),
        (json.dumps([GOOD | {"url": "http://me:secret@example.com/"}]), "put a token into the receiver's Secret"),
        (json.dumps([GOOD | {"name": "Up"}]), r"\[0\].name: 'Up' is no name; use lowercase"),
        (json.dumps([GOOD | {"batchSize": 0}]), r"\[0\].batchSize"),
        (json.dumps([GOOD | {"typs": []}]), r"\[0\].typs"),
        (json.dumps([GOOD, GOOD]), r"\[1\].name: 'tracker' is used twice"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(ReceiverError, match=says):
        parse_receivers(text)
