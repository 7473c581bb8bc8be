"""A certificate and its key, put into a context that servers use, and looked at as an agent will look at it."""

from __future__ import annotations

import os
import ssl


class CertificateError(Exception):
    """A certificate can't be served with; the text says why, and what to do."""


def make_server_context() -> ssl.SSLContext:
    """A context without a certificate: of TLS 1.3 alone, which all agents speak."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def load_chain(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Has a context show a certificate from the next connection on; those that are open stay as they are.

    Raises:
        ssl.SSLError: Both don't belong together, or can't be read.
    """
    # Python reads them from a file alone. This one is in memory, and nobody else's.
    number = os.memfd_create("podtune-results", os.MFD_CLOEXEC)
    with os.fdopen(number, "wb") as file:
        file.write(f"{certificate}\n{key}".encode())
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{number}")


def check_chain(certificate: str, key: str, trusted: str, host: str) -> None:
    """Lets a client as agents are one connect, in memory, to a server that shows the certificate.

    Raises:
        CertificateError: The client would go away.
    """
    server_context = make_server_context()
    try:
        load_chain(server_context, certificate, key)
    except ssl.SSLError as error:
        raise CertificateError(f"tls.crt and tls.key can't be used together: {error}") from error
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        client_context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"ca.crt holds no certificate in PEM: {error}") from error
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=host)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(
                f"agents would not believe the certificate: {error.verify_message}; "
                f"have it made for {host}, by an authority of ca.crt"
            ) from error
