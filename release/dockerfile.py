"""Which parts of a Dockerfile make an image."""

from __future__ import annotations

import re

_STAGE = re.compile(r"^(?=FROM\s)", re.MULTILINE | re.IGNORECASE)


def split_stages(dockerfile: str) -> list[str]:
    """Split a Dockerfile into what stands before its stages, and each stage."""
    return _STAGE.split(dockerfile)


def select_stages(dockerfile: str, target: str) -> str:
    """Return what of a Dockerfile a target is made by: its stage, and those that this begins with or copies from."""
    head, *stages = split_stages(dockerfile)
    sources: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for stage in stages:
        base, _, name = stage.splitlines()[0].removeprefix("FROM ").partition(" AS ")
        texts[name.strip()] = stage
        sources[name.strip()] = [base.strip(), *re.findall(r"--from=(\S+)", stage)]
    needed, found = [target], set[str]()
    while needed:
        name = needed.pop()
        if name in texts and name not in found:
            found.add(name)
            needed += sources[name]
    return head + "".join(text for name, text in texts.items() if name in found)
