"""The two authorities that sign the results server's certificates, one after the other.

A pod knows the authorities from its spec, which never changes. So it is given two: the one that signs, and the one that
will sign next. When the turn of the first is over, the second signs, and pods made from then on are given the second
and a third. A pod trusts whoever signs for as long as one turn at least, whenever it was made.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TURN = timedelta(days=730)
"""How long an authority signs; a pod that is younger than this can report. Kubernetes supports no node for so long
without an upgrade, which needs its pods gone."""
AUTHORITY_LIFE = 3 * TURN
"""It is known for one turn before it signs, and signs for another; the third is for an operator that was away."""
LEAF_LIFE = timedelta(days=30)
LEAF_RENEWAL = timedelta(days=20)
"""How old the server's own certificate becomes."""
CLOCK_SKEW = timedelta(hours=1)
"""So much may a node's clock be behind: certificates are valid from before they were made."""


class UnusableAuthority(ValueError):
    """What should be an authority is none; the text says why."""


@dataclass(frozen=True, slots=True)
class Authority:
    """One authority.

    Attributes:
        certificate: Its own certificate, in PEM.
        key: Its private key, in PEM.
        made: When it was made.
        ends: When its certificate ends.
    """

    certificate: str
    key: str
    made: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Authorities:
    """The authority that signs, and the one that will sign next, which was made when the first began to sign."""

    signing: Authority
    following: Authority

    @property
    def trusted(self) -> str:
        """What a pod that is made now is given, in PEM."""
        return self.signing.certificate + self.following.certificate

    @property
    def turn_ends(self) -> datetime:
        """When the next one has to sign; earlier where the operator was away for so long that this one would end."""
        return min(self.following.made + TURN, self.signing.ends - LEAF_LIFE)


@dataclass(frozen=True, slots=True)
class Leaf:
    """The server's own certificate.

    Attributes:
        certificate: In PEM.
        key: Its private key, in PEM.
        renewal: When another one has to take its place.
    """

    certificate: str
    key: str
    renewal: datetime


def renew(kept: Authorities | None, now: datetime) -> Authorities:
    """The authorities as they have to be now: those that are kept, unless a turn is over."""
    if kept is None:
        return Authorities(make_authority(now), make_authority(now))
    if now < kept.turn_ends:
        return kept
    signing, following = kept.following, make_authority(now)
    if now >= signing.ends - LEAF_LIFE:  # nobody has looked for years, and no pod is that old
        signing = make_authority(now)
    return Authorities(signing, following)


def make_authority(now: datetime) -> Authority:
    """Makes an authority that nobody trusts yet."""
    key = ec.generate_private_key(ec.SECP256R1())
    serial = x509.random_serial_number()
    # Each has a name of its own, by which a certificate tells who has signed it.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"podtune results {serial:x}"[:64])])
    made = now.astimezone(UTC).replace(microsecond=0)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _begin_certificate(name, name, serial, made, made + AUTHORITY_LIFE)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_list_key_usage(signs_certificates=True), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(_encode(certificate), _encode_key(key), made, made + AUTHORITY_LIFE)


def read_authority(certificate: str, key: str) -> Authority:
    """Reads an authority from its certificate and its key.

    Raises:
        UnusableAuthority: They can't be read, or don't belong together.
    """
    try:
        read = x509.load_pem_x509_certificate(certificate.encode())
        private = load_pem_private_key(key.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise UnusableAuthority(f"it can't be read: {error}") from error
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != read.public_key():
        raise UnusableAuthority("its key is not that of its certificate")
    return Authority(_encode(read), key, read.not_valid_before_utc + CLOCK_SKEW, read.not_valid_after_utc)


def issue_leaf(authority: Authority, host: str, now: datetime) -> Leaf:
    """Makes the certificate with which a server shows that it is `host`."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    issuer_key = load_pem_private_key(authority.key.encode(), password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)  # it was made here, or read by `read_authority`
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    certificate = (
        _begin_certificate(
            x509.Name([]), issuer.subject, x509.random_serial_number(), now, min(now + LEAF_LIFE, authority.ends)
        )
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([_name_host(host)]), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_list_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return Leaf(_encode(certificate), _encode_key(key), now + LEAF_RENEWAL)


def _begin_certificate(
    subject: x509.Name, issuer: x509.Name, serial: int, made: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .serial_number(serial)
        .not_valid_before(made - CLOCK_SKEW)
        .not_valid_after(ends)
    )


def _list_key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name_host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encode(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode("ascii")


def _encode_key(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
