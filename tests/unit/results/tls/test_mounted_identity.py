"""A certificate that somebody else renews is taken over as soon as it is there."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from podtune.results.tls.authorities import Authority, issue_leaf, make_authority
from podtune.results.tls.chain import CertificateError
from podtune.results.tls.identity import MAX_TRUSTED_BYTES, MOUNTED_SECONDS, MountedIdentity
from tests.unit.results.tls.handshake import HOST, do_agents_believe


def mount(directory: Path, authority: Authority, host: str = HOST) -> None:
    leaf = issue_leaf(authority, host, datetime.now(UTC))
    for name, text in {"tls.crt": leaf.certificate, "tls.key": leaf.key, "ca.crt": authority.certificate}.items():
        (directory / name).write_text(text)


async def test_what_is_mounted_is_shown_and_its_authority_given_to_pods(tmp_path: Path) -> None:
    authority = make_authority(datetime.now(UTC))
    mount(tmp_path, authority)
    identity = MountedIdentity(tmp_path, HOST)
    assert await identity.refresh() == MOUNTED_SECONDS
    assert identity.trusted == authority.certificate
    assert do_agents_believe(identity)


async def test_a_renewed_one_takes_its_place(tmp_path: Path) -> None:
    mount(tmp_path, make_authority(datetime.now(UTC)))
    identity = MountedIdentity(tmp_path, HOST)
    await identity.refresh()
    before = identity.trusted
    mount(tmp_path, make_authority(datetime.now(UTC)))
    await identity.refresh()
    assert identity.trusted != before
    assert do_agents_believe(identity)
    assert not do_agents_believe(identity, trusted=before)


async def test_one_that_agents_would_not_believe_is_not_taken_over(tmp_path: Path) -> None:
    mount(tmp_path, make_authority(datetime.now(UTC)))
    identity = MountedIdentity(tmp_path, HOST)
    await identity.refresh()
    before = identity.trusted
    mount(tmp_path, make_authority(datetime.now(UTC)), host="podtune.example.com")
    with pytest.raises(CertificateError, match=f"Hostname mismatch.*have it made for {HOST}"):
        await identity.refresh()
    assert do_agents_believe(identity, trusted=before)


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
async def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    mount(tmp_path, make_authority(datetime.now(UTC)))
    (tmp_path / name).unlink()
    with pytest.raises(CertificateError, match=rf"{name} can't be read.*results\.tls\.secret needs tls\.crt"):
        await MountedIdentity(tmp_path, HOST).refresh()


async def test_a_whole_bundle_of_the_worlds_authorities_is_too_much_for_each_pod(tmp_path: Path) -> None:
    mount(tmp_path, make_authority(datetime.now(UTC)))
    with (tmp_path / "ca.crt").open("a") as file:
        file.write("\n" * MAX_TRUSTED_BYTES)
    with pytest.raises(CertificateError, match="each pod gets it"):
        await MountedIdentity(tmp_path, HOST).refresh()
