"""What kopf is told to do, and where its events go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import kopf
import pytest

from podtune.controllers.store.store import Store
from podtune.controllers.watch.kopf import NoDiffs, make_registry, make_settings
from podtune.controllers.watch.resync import POD_SELECTOR, Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.manifests import Manifest

BODY: Manifest = {"metadata": {"name": "digits", "uid": "e-1", "resourceVersion": "7"}}


@dataclass
class Calls:
    """A store, the health of the watches and a resync that note what they are told."""

    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def note(*args: object) -> None:
            self.calls.append(" ".join([name, *(arg for arg in args if isinstance(arg, str))]))
            assert args == () or args[-1] is BODY

        return note


def send(plural: str, type_: str | None) -> list[str]:
    """Has kopf's handler of a kind of objects take an event; returns what was told of it, in order."""
    told = Calls()
    registry = make_registry(cast("Store", told), cast("WatchHealth", told), cast("Resync", told))
    (handler,) = [
        handler
        for handler in registry._watching.get_all_handlers()
        if handler.selector is not None and plural in (handler.selector.plural, handler.selector.any_name)
    ]
    asyncio.run(cast("Any", handler.fn)(event={"type": type_, "object": BODY}, unknown=None))
    return told.calls


@pytest.mark.parametrize(("plural", "kind"), [("experiments", "Experiment"), ("trials", "Trial"), ("pods", "Pod")])
def test_an_event_goes_to_the_store(plural: str, kind: str) -> None:
    method = f"observe_{kind.lower()}"
    assert send(plural, "ADDED") == send(plural, "MODIFIED") == [f"saw {kind}", method]
    assert send(plural, "DELETED") == [f"saw {kind}", f"{method}_deletion"]


def test_a_list_has_everything_listed_before_long_since_it_tells_of_no_deletion() -> None:
    assert send("trials", None) == ["saw Trial", "call", "observe_trial"]


def test_kopf_writes_nothing_to_the_cluster() -> None:
    settings = make_settings()
    assert (settings.posting.enabled, settings.scanning.disabled, settings.peering.standalone) == (False, True, True)
    assert isinstance(settings.persistence.diffbase_storage, NoDiffs)


def test_kopf_watches_pods_of_trials_alone() -> None:
    assert make_settings().watching.label_selectors["v1", "pods"] == POD_SELECTOR


def test_a_watch_that_hangs_is_given_up_after_the_api_server_should_have_ended_it() -> None:
    watching = make_settings().watching
    assert watching.server_timeout is not None
    assert watching.client_timeout is not None
    assert watching.server_timeout < watching.client_timeout


def test_no_last_state_of_an_object_is_kept() -> None:
    body = kopf.Body(cast("Any", BODY))
    assert not NoDiffs().build(body=body)
    assert NoDiffs().fetch(body=body) is None
