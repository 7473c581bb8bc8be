"""The receivers of webhooks in the chart: settings, Secrets and rights, and none of them where there is no receiver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podtune.webhooks.receivers import parse_receivers
from tests.component.charts.rendered import list_config_map_rules, read_operator, render, template

TRACKER = {
    "name": "tracker",
    "url": "https://events.example.com/podtune",
    "secret": "podtune-tracker",
    "namespaces": ["team-a"],
    "types": ["dev.podtune.experiment.*"],
    "batchSize": 100,
    "retrySeconds": 86400,
}
ROOM = {"name": "room", "url": "http://room.chat.svc:8080/"}


def test_receivers_are_handed_over_as_the_operator_reads_them() -> None:
    container = read_operator(render(webhooks=[TRACKER, ROOM]))
    (variable,) = [entry for entry in container["env"] if entry["name"] == "PODTUNE_WEBHOOKS"]
    tracker, room = parse_receivers(variable["value"])
    assert (tracker.batch_size, tracker.retry_seconds, str(tracker.secrets)) == (
        100,
        86400,
        "/etc/podtune/webhooks/tracker",
    )
    assert (tracker.namespaces, tracker.types) == (("team-a",), ("dev.podtune.experiment.*",))
    assert (room.url, room.secrets) == ("http://room.chat.svc:8080/", None)
    assert "podtune-tracker" not in json.dumps(container["env"])


def test_a_receivers_secret_is_mounted_where_the_operator_looks() -> None:
    container = read_operator(render(webhooks=[TRACKER, ROOM]))
    (mount,) = container["volumeMounts"]
    (volume,) = container["volumes"]
    assert mount == {"name": "webhook-tracker", "mountPath": "/etc/podtune/webhooks/tracker", "readOnly": True}
    assert volume == {"name": "webhook-tracker", "secret": {"secretName": "podtune-tracker"}}


def test_the_operator_may_change_the_config_maps_of_its_receivers_alone() -> None:
    create, change = list_config_map_rules(render(webhooks=[TRACKER, ROOM]))
    assert (create["verbs"], create.get("resourceNames")) == (["create"], None)
    assert change["verbs"] == ["get", "update"]
    assert change["resourceNames"] == ["podtune-operator-webhook-tracker", "podtune-operator-webhook-room"]


def test_without_receivers_there_is_nothing_of_them() -> None:
    documents = render()
    container = read_operator(documents)
    assert not [entry for entry in container["env"] if entry["name"] == "PODTUNE_WEBHOOKS"]
    assert "volumeMounts" not in container
    assert container["volumes"] == []
    assert list_config_map_rules(documents) == []


@pytest.mark.parametrize(
    "change",
    [
        {"url": "ftp://example.com"},
        {"url": "https://me:word@example.com/"},
        {"name": "Up"},
        {"batchSize": 0},
        {"typ": 1},
    ],
)
def test_what_the_operator_would_refuse_helm_refuses(change: dict[str, Any]) -> None:
    assert template({"webhooks": [ROOM | change]}).returncode != 0
