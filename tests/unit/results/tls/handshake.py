"""Whether an agent would believe a server."""

from __future__ import annotations

import ssl

from podtune.results.tls.identity import Identity

HOST = "podtune-results.podtune-system.svc"


def do_agents_believe(identity: Identity, trusted: str = "") -> bool:
    """Whether an agent that was given some authorities, by default those of now, would talk to the server."""
    agent = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    agent.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python's own default will be
    agent.load_verify_locations(cadata=trusted or identity.trusted)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = identity.context.wrap_bio(to_server, to_client, server_side=True)
    client = agent.wrap_bio(to_client, to_server, server_hostname=HOST)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError:
            return False
    return True
