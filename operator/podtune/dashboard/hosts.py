"""Which host names the server answers to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from ipaddress import ip_address


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
