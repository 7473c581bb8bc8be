"""A certificate that somebody else has made is looked at before it is served with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from podtune.results.tls.authorities import issue_leaf, make_authority
from podtune.results.tls.chain import CertificateError, check_chain

HOST = "podtune-results.podtune-system.svc"


def test_each_part_that_is_wrong_is_named() -> None:
    now = datetime.now(UTC)
    authority = make_authority(now)
    leaf, other = issue_leaf(authority, HOST, now), issue_leaf(authority, HOST, now)
    check_chain(leaf.certificate, leaf.key, authority.certificate, HOST)
    with pytest.raises(CertificateError, match=r"tls\.crt and tls\.key can't be used together"):
        check_chain(leaf.certificate, other.key, authority.certificate, HOST)
    with pytest.raises(CertificateError, match=r"tls\.crt and tls\.key can't be used together"):
        check_chain("", leaf.key, authority.certificate, HOST)
    with pytest.raises(CertificateError, match=r"ca\.crt holds no certificate"):
        check_chain(leaf.certificate, leaf.key, "", HOST)
