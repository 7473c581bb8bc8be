"""The page about events lists all types, and its examples are what the operator takes and sends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from podtune.api.names import TrialState
from podtune.webhooks.events import EVENT_TYPES
from podtune.webhooks.receivers import Receiver
from podtune.webhooks.sender import decode_key
from tests.unit.webhooks.subjects import WrittenTrial, hear, make_outbox

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "send-events.md").read_text(encoding="utf-8")


def find_blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_each_type_has_its_row() -> None:
    assert tuple(re.findall(r"^\| `(dev\.podtune\.[a-z.]+)` \|", PAGE, re.MULTILINE)) == EVENT_TYPES


def test_the_receiver_is_one_that_the_operator_takes() -> None:
    ((given,),) = (values["webhooks"] for values in map(yaml.safe_load, find_blocks("yaml")) if "webhooks" in values)
    receiver = Receiver.model_validate({key: value for key, value in given.items() if key != "secret"})
    assert [type_ for type_ in EVENT_TYPES if receiver.wants(type_)], "its patterns match something"
    rows = set(re.findall(r"^\| `([a-zA-Z]+)` \|", PAGE, re.MULTILINE))
    fields = {info.alias for info in Receiver.model_fields.values()} - {"secrets"} | {"secret"}
    assert fields <= rows


def test_the_event_has_the_fields_of_a_real_one() -> None:
    (shown,) = map(json.loads, find_blocks("json"))
    outbox = make_outbox()
    outbox.observe(WrittenTrial().turn(TrialState.RUNNING).turn(TrialState.TERMINATED).subject)
    real = hear(outbox)[-1]
    assert list(shown) == [key for key in shown if key in real]
    assert (shown.keys(), shown["data"].keys()) == (real.keys(), real["data"].keys())


def test_the_signing_key_is_one() -> None:
    (key,) = re.findall(r"signingKey: (\S+)", PAGE)
    assert len(decode_key(key)) >= 24
