"""Which files of a directory are meant, by patterns as a shell has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate


def matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Says of a path, relative and with slashes, whether one of the patterns fits.

    Args:
        patterns: With `*` (slashes, too), `?` and `[…]`. One without a slash is held to the path's last part, any other
            to the whole path; one that ends with a slash fits a directory.
    """
    whole: list[str] = []
    last: list[str] = []
    for pattern in patterns:
        plain = pattern.rstrip("/")
        (whole if "/" in plain else last).append(translate(plain.lstrip("/")))
    fits_whole, fits_last = (re.compile("|".join(found)).match if found else None for found in (whole, last))

    def fits(path: str) -> bool:
        if fits_whole and fits_whole(path):
            return True
        return bool(fits_last and fits_last(path.rpartition("/")[2]))

    return fits
