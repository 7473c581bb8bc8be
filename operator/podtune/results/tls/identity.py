"""Who the results server is to agents: the certificate that it shows, and whom pods that are made now trust."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from random import Random
from typing import Protocol

import structlog

from podtune.kube.errors import ApiError
from podtune.results.tls.chain import CertificateError, check_chain, load_chain, make_server_context

log = structlog.get_logger(__name__)

MOUNTED_SECONDS = 60.0
"""How often the files of a mounted Secret are looked at: the kubelet takes a minute, too."""
RENEWAL_RETRY_SECONDS = 30.0
MAX_TRUSTED_BYTES = 16 << 10
"""Each pod's spec holds them."""


class Identity(Protocol):
    """What the results server shows to agents."""

    @property
    def context(self) -> ssl.SSLContext:
        """The server's context; it stays the same one."""

    @property
    def trusted(self) -> str:
        """The authorities that a pod is given which is made now, in PEM."""

    async def refresh(self) -> float:
        """Brings both up to date, and returns after how many seconds to do so again.

        Raises:
            ApiError: The API server could not be asked.
            CertificateError: There is no certificate to be had.
        """


class MountedIdentity:
    """A certificate that somebody else renews, such as cert-manager, in a Secret that is mounted."""

    def __init__(self, directory: Path, host: str) -> None:
        self._directory = directory
        self._host = host
        self._context = make_server_context()
        self._files = ("", "", "")

    @property
    def context(self) -> ssl.SSLContext:
        """See `Identity.context`."""
        return self._context

    @property
    def trusted(self) -> str:
        """See `Identity.trusted`."""
        return self._files[2]

    async def refresh(self) -> float:
        """See `Identity.refresh`."""
        certificate, key, trusted = files = self._read("tls.crt"), self._read("tls.key"), self._read("ca.crt")
        if files != self._files:
            if len(trusted) > MAX_TRUSTED_BYTES:
                words = f"ca.crt has {len(trusted)} bytes, and each pod gets it; keep it below {MAX_TRUSTED_BYTES}"
                raise CertificateError(f"{words}: the authorities alone that sign for the results server")
            check_chain(certificate, key, trusted, self._host)
            load_chain(self._context, certificate, key)
            self._files = files
            log.info("certificate of the results server read", directory=str(self._directory))
        return MOUNTED_SECONDS

    def _read(self, name: str) -> str:
        try:
            return (self._directory / name).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            words = f"{self._directory / name} can't be read: {error}"
            raise CertificateError(f"{words}; results.tls.secret needs tls.crt, tls.key and ca.crt") from error


async def keep_fresh(identity: Identity, wait: float, rng: Random) -> None:
    """Refreshes an identity for ever, first after `wait` seconds.

    What fails is tried again, and the certificate that there is serves on.
    """
    while True:
        await asyncio.sleep(wait)
        try:
            wait = await identity.refresh()
        except (ApiError, CertificateError) as error:
            log.warning("certificate of the results server not renewed", message=str(error))
            wait = RENEWAL_RETRY_SECONDS * (1 + rng.random())
