"""Under which names the server is reached, and under which path."""

from __future__ import annotations

from collections.abc import Callable, Collection
from ipaddress import ip_address

from aiohttp import hdrs, web

PREFIX = web.AppKey("prefix", str)
"""What the paths of requests begin with, without a slash at the end."""


def find_root(request: web.Request) -> str:
    """The way from a page to the first one: addresses are relative, so pages work behind any prefix of a path."""
    return "../" * (request.rel_url.raw_path.count("/") - request.app[PREFIX].count("/") - 1) or "./"


def lead_to(location: str) -> web.Response:
    """Has the browser get another page; the address is relative to the one that it has asked for."""
    return web.Response(status=web.HTTPSeeOther.status_code, headers={hdrs.LOCATION: location})


def split_host(host: str) -> str:
    """The name in a Host header, without a port or brackets."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.removeprefix("[").removesuffix("]").lower()


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine to itself, with or without a port."""
    name = split_host(host)
    return name == "localhost" or (is_address(name) and ip_address(name).is_loopback)


def is_address(name: str) -> bool:
    """Whether it is an IP address: no site's own name leads its visitors there."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def make_host_rule(allowed: Collection[str] | None) -> Callable[[str], bool]:
    """Says of a Host header whether it is answered: these names, addresses and localhost; None for any."""
    if allowed is None:
        return lambda _: True
    return lambda host: (name := split_host(host)) in allowed or name == "localhost" or is_address(name)
