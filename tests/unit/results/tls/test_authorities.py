"""Whoever signs is known to every pod that is not older than a turn."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from podtune.results.tls.authorities import (
    CLOCK_SKEW,
    LEAF_LIFE,
    LEAF_RENEWAL,
    TURN,
    Authorities,
    Leaf,
    UnusableAuthority,
    issue_leaf,
    make_authority,
    read_authority,
    renew,
)
from podtune.results.tls.chain import CertificateError, check_chain

HOST = "podtune-results.podtune-system.svc"
START = datetime(2027, 1, 1, tzinfo=UTC)
MOMENT = timedelta(seconds=1)


def count(trusted: str) -> int:
    return trusted.count("BEGIN CERTIFICATE")


def read_end(leaf: Leaf) -> datetime:
    return x509.load_pem_x509_certificate(leaf.certificate.encode()).not_valid_after_utc


def test_two_are_made_and_the_first_signs() -> None:
    made = renew(None, START)
    assert made.trusted == made.signing.certificate + made.following.certificate
    assert count(made.trusted) == 2
    assert made.turn_ends == START + TURN


def test_nothing_changes_before_the_turn_ends_and_then_the_second_signs() -> None:
    first = renew(None, START)
    assert renew(first, START + TURN - MOMENT) is first
    second = renew(first, START + TURN)
    assert second.signing == first.following
    assert second.following not in (first.signing, first.following)
    assert second.turn_ends == START + 2 * TURN


def test_an_operator_that_was_away_for_years_begins_anew_before_anything_ends() -> None:
    first = renew(None, START)
    late = START + 3 * TURN - LEAF_LIFE
    assert renew(first, late - MOMENT).signing == first.following
    anew = renew(first, late)
    assert {anew.signing, anew.following}.isdisjoint({first.signing, first.following})
    assert renew(anew, late) is anew


def test_an_authority_whose_turn_was_late_hands_over_before_it_ends() -> None:
    begun = START + 2.5 * TURN
    second = renew(renew(None, START), begun)
    assert second.signing.ends == START + 3 * TURN
    assert second.turn_ends == second.signing.ends - LEAF_LIFE < begun + TURN
    assert renew(second, second.turn_ends).signing == second.following


@given(
    looks=st.lists(st.timedeltas(timedelta(), TURN / 2), min_size=1, max_size=8),
    made=st.integers(0, 7),
    age=st.timedeltas(timedelta(), TURN),
)
@settings(max_examples=60, deadline=None)
def test_a_pod_younger_than_a_turn_trusts_whoever_signs(looks: list[timedelta], made: int, age: timedelta) -> None:
    now, kept = START, renew(None, START)
    history: list[tuple[datetime, Authorities]] = [(now, kept)]
    for wait in looks:
        now += wait
        kept = renew(kept, now)
        history.append((now, kept))
    created, then = history[made % len(history)]
    for moment, later in history:
        if created <= moment <= created + age:
            assert later.signing.certificate in then.trusted
            assert later.signing.made <= moment <= later.signing.ends - LEAF_LIFE


def test_what_is_read_back_is_the_same() -> None:
    made = make_authority(datetime.now(UTC))
    assert read_authority(made.certificate, made.key) == made


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_what_is_no_authority_is_refused(part: str) -> None:
    made, other = make_authority(START), make_authority(START)
    with pytest.raises(UnusableAuthority, match="can't be read"):
        read_authority(**{"certificate": made.certificate, "key": made.key} | {part: "nothing"})
    with pytest.raises(UnusableAuthority, match="not that of its certificate"):
        read_authority(made.certificate, other.key)


def test_an_agent_believes_a_leaf_of_either_authority_and_of_no_other() -> None:
    now = datetime.now(UTC)
    authorities = renew(None, now)
    for signing in (authorities.signing, authorities.following):
        leaf = issue_leaf(signing, HOST, now)
        check_chain(leaf.certificate, leaf.key, authorities.trusted, HOST)
    foreign = issue_leaf(make_authority(now), HOST, now)
    with pytest.raises(CertificateError, match="would not believe"):
        check_chain(foreign.certificate, foreign.key, authorities.trusted, HOST)


def test_a_leaf_is_for_its_host_alone() -> None:
    now = datetime.now(UTC)
    authority = make_authority(now)
    leaf = issue_leaf(authority, HOST, now)
    with pytest.raises(CertificateError, match=r"Hostname mismatch.*have it made for elsewhere"):
        check_chain(leaf.certificate, leaf.key, authority.certificate, "elsewhere.svc")
    local = issue_leaf(authority, "127.0.0.1", now)
    check_chain(local.certificate, local.key, authority.certificate, "127.0.0.1")


def test_a_node_whose_clock_is_behind_believes_it_and_none_does_after_its_end() -> None:
    now = datetime.now(UTC)
    ahead = now + CLOCK_SKEW - timedelta(minutes=1)
    authority = make_authority(ahead)
    leaf = issue_leaf(authority, HOST, ahead)
    check_chain(leaf.certificate, leaf.key, authority.certificate, HOST)
    over = now - LEAF_LIFE
    authority = make_authority(over)
    leaf = issue_leaf(authority, HOST, over)
    with pytest.raises(CertificateError, match="expired"):
        check_chain(leaf.certificate, leaf.key, authority.certificate, HOST)


def test_a_leaf_is_renewed_well_before_its_end_and_ends_no_later_than_its_authority() -> None:
    authority = make_authority(START)
    assert issue_leaf(authority, HOST, START).renewal == START + LEAF_RENEWAL < START + LEAF_LIFE
    assert read_end(issue_leaf(authority, HOST, START)) == START + LEAF_LIFE
    assert read_end(issue_leaf(authority, HOST, authority.ends - LEAF_LIFE / 2)) == authority.ends
