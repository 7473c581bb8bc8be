"""Kubernetes' quantities: amounts of a resource, such as 500m, 16Gi or 4."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from podtune.api.base import Form

_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>[0-9]+\.?[0-9]*|\.[0-9]+)"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MAX_LENGTH = 64
"""Characters of the longest text that is read as a quantity; nobody writes one that is."""
LARGEST_EXPONENT = 30
"""Beyond it, Kubernetes takes a quantity for as large, or as small, as one can be."""


def parse_quantity(written: Any) -> Fraction | None:
    """The amount of a quantity, given as text or number; None if it is not a quantity."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return None
    text = str(written)
    match = _FORM.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        return None
    amount = Fraction(match["digits"].removesuffix(".")) * (-1 if match["sign"] == "-" else 1)
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return amount * (1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or "0")
    scale: int = 10 ** min(abs(exponent), LARGEST_EXPONENT)
    return amount * scale if exponent >= 0 else amount / scale


def parse_size(size: str) -> int:
    """Reads a size such as `50Gi` as bytes.

    Raises:
        ValueError: The text is no size.
    """
    amount = parse_quantity(size)
    if amount is None or amount < 0:
        raise ValueError(f"{size!r} is not a size; write it like 50Gi")
    return int(amount)


ResourceName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    Form(
        r"cpu|memory|ephemeral-storage|hugepages-[A-Za-z0-9]+|"
        r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?",
        "is not a valid resource name; write it like nvidia.com/gpu, nvidia.com/mig-3g.20gb, cpu or memory",
    ),
]


_WRITTEN = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?"
MAX_QUANTITY = 32


def read_quantity(value: object) -> str:
    """Reads an amount of a resource, a whole number or a text such as 500m or 16Gi, as its text.

    Raises:
        ValueError: It is not one.
    """
    written = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if len(written) > MAX_QUANTITY or not re.fullmatch(_WRITTEN, written):
        raise ValueError(f"{str(value)[:MAX_QUANTITY]!r} is not a quantity; write it like 4, 500m or 16Gi")
    return written


Quantity = Annotated[
    str,
    PlainValidator(read_quantity),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_QUANTITY}),
]
"""As in a Kubernetes container's limits; the operator checks the form, because it gives better messages."""
UncheckedQuantity = Annotated[
    str,
    PlainValidator(str),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maxLength": MAX_QUANTITY}),
]
"""One of an object that has to be readable whatever its user has written; it is checked where it is used."""
