"""What an installation of the dashboard may choose."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from podtune.cli.errors import CliError
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.pricing import GpuPrice, check_price
from podtune.dashboard.server.store_settings import read_stores
from podtune.dashboard.stores.access import MountedStore

DEFAULT_PORT = 8080
DEFAULT_SESSION_HOURS = 12.0
MOST_SESSION_HOURS = 24.0 * 7
LOG_LEVELS = ("debug", "info", "warning", "error")
_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+")
_HEADER = re.compile("[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM; None where there is none.

    Attributes:
        certificate: The server's certificate, with those between it and its authority.
        key: Its private key.
        proxy_authority: Who has signed the certificate of a proxy that says who the viewer is.
    """

    certificate: Path | None = None
    key: Path | None = None
    proxy_authority: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All settings, checked.

    Attributes:
        address: Where to listen.
        port: Where to listen; 0 for any free port.
        prefix: What all paths begin with, without a slash at the end; empty where nothing is.
        namespaces: Which are shown; none for all.
        title: Name of the cluster; empty where it has none.
        allowed_hosts: Names that the server answers to, apart from its own addresses; None for any.
        offers_actions: Whether viewers may act, with their own tokens.
        is_open: Whether everybody may see all.
        session: How long a login lasts.
        tls: The server's side of TLS; None for plain HTTP.
        tls_files: What that was made of.
        proxy: What is believed of a proxy that shows a certificate.
        price: Of a GPU-hour, for experiments whose manifest has none.
        stores: Which may be read for viewers with a token.
        log_level: One of `LOG_LEVELS`.
    """

    address: str
    port: int
    prefix: str
    namespaces: tuple[str, ...]
    title: str
    allowed_hosts: frozenset[str] | None
    offers_actions: bool
    is_open: bool
    session: timedelta
    tls: ssl.SSLContext | None
    tls_files: TlsFiles
    proxy: ProxyTrust
    price: GpuPrice
    stores: tuple[MountedStore, ...]
    log_level: str


def check_settings(
    *,
    address: str,
    port: int,
    prefix: str,
    namespaces: str,
    title: str,
    allowed_hosts: str,
    actions: bool,
    is_open: bool,
    session_hours: float,
    tls: TlsFiles,
    proxy: ProxyTrust,
    gpu_price: str,
    currency: str,
    stores: str,
    log_level: str,
) -> ServerSettings:
    """Checks what was given, as options or in the environment.

    Raises:
        CliError: Something is wrong; the text names the option and the remedy.
    """
    if is_open:
        _check_open(actions=actions, stores=stores)
    _check_values(session_hours, port, log_level)
    _check_proxy(proxy, tls, is_open=is_open)
    hosts = frozenset(name.lower() for name in _split(allowed_hosts))
    return ServerSettings(
        address=address,
        port=port,
        prefix=_read_prefix(prefix),
        namespaces=_split(namespaces),
        title=title.strip(),
        # A page that everybody may read must not be read through a foreign name (DNS rebinding).
        allowed_hosts=hosts if hosts or is_open else None,
        offers_actions=actions,
        is_open=is_open,
        session=timedelta(hours=session_hours),
        tls=open_tls(tls),
        tls_files=tls,
        proxy=proxy,
        price=check_price(gpu_price, currency),
        stores=read_stores(stores),
        log_level=log_level.lower(),
    )


def _check_open(*, actions: bool, stores: str) -> None:
    if actions:
        raise CliError("--actions needs the viewers' own tokens, and --open asks for none; leave out one of the two")
    if stores.strip():
        raise CliError("--stores are read for viewers with a token, and --open asks for none; leave out one of the two")


def _check_values(session_hours: float, port: int, log_level: str) -> None:
    if not 0 < session_hours <= MOST_SESSION_HOURS:
        raise CliError(f"--session-hours is {session_hours:g}; use more than 0, and at most {MOST_SESSION_HOURS:g}")
    if not 0 <= port <= 65535:
        raise CliError(f"--port is {port}; use a number from 0 to 65535")
    if log_level.lower() not in LOG_LEVELS:
        raise CliError(f"--log-level is {log_level!r}; use {', '.join(LOG_LEVELS)}")


def _split(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _read_prefix(written: str) -> str:
    prefix = written.strip().rstrip("/")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise CliError(f"--prefix is {written!r}; use a path such as /podtune, of letters, digits, - . _ and ~")
    return prefix


def _check_proxy(proxy: ProxyTrust, tls: TlsFiles, *, is_open: bool) -> None:
    for option, header in (
        ("--proxy-user-header", proxy.user_header),
        ("--proxy-groups-header", proxy.groups_header),
    ):
        if header and not _HEADER.fullmatch(header):
            raise CliError(f"{option} is {header!r}; use the name of a header, such as X-Forwarded-User")
    if proxy.groups_header and not proxy.user_header:
        raise CliError("--proxy-groups-header needs --proxy-user-header, which names whose groups they are")
    if proxy.user_header and is_open:
        raise CliError("--proxy-user-header says who the viewer is, and --open asks nobody; leave out one of the two")
    if proxy.user_header and not (tls.certificate and tls.proxy_authority):
        raise CliError(
            "--proxy-user-header is believed over mutual TLS alone; give --tls-certificate, --tls-key and "
            "--proxy-authority, the authority that has signed the proxy's certificate"
        )
    if tls.proxy_authority and not proxy.user_header:
        raise CliError("--proxy-authority does nothing without --proxy-user-header")


def open_tls(files: TlsFiles) -> ssl.SSLContext | None:
    """The server's side of TLS; None where there is none.

    Raises:
        CliError: The files can't be used.
    """
    if files.certificate is None and files.key is None:
        return None
    if files.certificate is None or files.key is None:
        raise CliError("--tls-certificate and --tls-key belong together; give both")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(files.certificate, files.key)
        if files.proxy_authority is not None:
            # Browsers and the kubelet have no certificate: only who shows one is believed to be the proxy.
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(files.proxy_authority)
    except OSError as error:  # ssl.SSLError is one
        raise CliError(f"the TLS files can't be used: {error}") from error
    return context
