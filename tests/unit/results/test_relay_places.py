"""Who gets one of the places of the logs that are passed on, when many want one."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest
from prometheus_client import REGISTRY

from podtune.results.authentication import Caller
from podtune.results.relay_places import MAX_RELAYS, RELAYS_OF_POD, SHARE, NoPlace, RelayPlaces


class Tenant:
    """A namespace with any number of pods, whose agents ask for their logs."""

    def __init__(self, places: RelayPlaces, namespace: str) -> None:
        self._places = places
        self._namespace = namespace
        self._pods = 0
        self.held: list[ExitStack] = []

    def ask(self) -> None:
        """One more pod asks for its log."""
        self._pods += 1
        caller = Caller(self._namespace, f"pod-{self._pods}", f"{self._namespace}-{self._pods}")
        with ExitStack() as stack:
            stack.enter_context(self._places.take(caller))
            self.held.append(stack.pop_all())

    def ask_until_refused(self) -> NoPlace:
        """Further pods ask, until one is refused."""
        for _ in range(MAX_RELAYS + 1):
            try:
                self.ask()
            except NoPlace as refusal:
                return refusal
        raise AssertionError("none was refused")

    def end(self, count: int) -> None:
        """So many of its logs end."""
        for _ in range(count):
            self.held.pop().close()


def count_relays() -> float:
    return REGISTRY.get_sample_value("podtune_log_relays") or 0.0


def test_one_namespaces_relays_leave_room_for_anothers() -> None:
    places = RelayPlaces()
    greedy, other = Tenant(places, "greedy"), Tenant(places, "other")
    refusal = greedy.ask_until_refused()
    assert refusal.is_of_caller
    assert str(refusal) == "2000 logs are passed on already to namespace greedy; others need the rest"
    for _ in range(300):
        other.ask()
    with pytest.raises(NoPlace):
        greedy.ask()
    assert count_relays() == 2300


def test_both_get_the_same_once_the_first_ones_logs_end_and_begin() -> None:
    places = RelayPlaces()
    tenants = [Tenant(places, "first"), Tenant(places, "second")]
    tenants[0].ask_until_refused()
    for _ in range(20):
        for tenant in tenants:
            tenant.end(len(tenant.held) // 4)
        for _ in range(MAX_RELAYS // 4):
            for tenant in tenants:
                with suppress(NoPlace):
                    tenant.ask()
    first, second = (len(tenant.held) for tenant in tenants)
    assert abs(first - second) < 10, (first, second)
    assert first + second < MAX_RELAYS, "a third would find room"


def test_a_namespace_that_has_few_is_refused_only_where_all_places_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtune.results.relay_places.MAX_RELAYS", SHARE)
    places = RelayPlaces()
    tenants = [Tenant(places, f"team-{number}") for number in range(SHARE)]
    for tenant in tenants:
        tenant.ask()
    with pytest.raises(NoPlace, match=f"^{SHARE} logs are passed on already$") as refusal:
        Tenant(places, "late").ask()
    assert not refusal.value.is_of_caller


def test_a_place_is_free_again_however_its_log_ends() -> None:
    places, caller = RelayPlaces(), Caller("team", "digits-0-1", "p-1")
    for _ in range(3 * RELAYS_OF_POD):
        with pytest.raises(ConnectionError), places.take(caller):
            raise ConnectionError
    assert count_relays() == 0
    assert not places._of_pod
    assert not places._of_namespace
