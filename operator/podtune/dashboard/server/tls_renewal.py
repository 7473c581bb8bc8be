"""Takes renewed certificates into use: cert-manager replaces their files while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from podtune.cli.errors import CliError
from podtune.dashboard.server.logs import get_field_logger
from podtune.dashboard.server.settings import TlsFiles, open_tls

CHECK_SECONDS = 60.0
"""Between two looks at the files."""
_log = get_field_logger(__name__)


class TlsRenewal:
    """Looks at the TLS files. New connections get what is in them; those that are open keep what they have."""

    def __init__(self, files: TlsFiles, context: ssl.SSLContext) -> None:
        """Takes the files, and the server's side of TLS, which was made of them."""
        self._files = files
        self._context = context
        self._own = self._look_at_own()
        self._authority = _look_at(files.proxy_authority)

    async def wait_for_authority(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Takes over renewed certificates; returns when the proxy has another authority.

        A context goes on to believe an authority that it was once given, so only another process forgets it.

        Args:
            sleep: Waits for so many seconds.
        """
        while True:
            await sleep(CHECK_SECONDS)
            if self._take_over():
                return

    def _take_over(self) -> bool:
        """Loads what has changed; says whether the proxy's authority has."""
        own, authority = self._look_at_own(), _look_at(self._files.proxy_authority)
        if (own, authority) == (self._own, self._authority):
            return False
        try:
            open_tls(self._files)  # a key that does not fit would leave the context in use without any
            if authority != self._authority:
                return True
            self._load()
        except (CliError, OSError) as error:
            _log.warning("renewed TLS files are not used", message=str(error))
            return False
        self._own = own
        _log.info("renewed TLS certificate is used", file=str(self._files.certificate))
        return False

    def _load(self) -> None:
        if self._files.certificate is not None:
            self._context.load_cert_chain(self._files.certificate, self._files.key)

    def _look_at_own(self) -> tuple[str, str]:
        return _look_at(self._files.certificate), _look_at(self._files.key)


def _look_at(file: Path | None) -> str:
    """A digest of what is in a file."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() if file is not None else ""
    except OSError:
        return ""  # it is being replaced
