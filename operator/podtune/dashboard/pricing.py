"""What a GPU-hour costs, where no manifest says it: the one number that whoever serves the dashboard sets."""

from __future__ import annotations

from dataclasses import dataclass

from podtune.cli.errors import CliError
from podtune.dashboard.numbers import read_finite

LONGEST_CURRENCY = 8


@dataclass(frozen=True, slots=True)
class GpuPrice:
    """A price to count with.

    Attributes:
        per_hour: Of one GPU for an hour; None where nobody has set it.
        currency: Behind amounts, those at a manifest's prices included; may be empty.
    """

    per_hour: float | None = None
    currency: str = ""


NO_PRICE = GpuPrice()


def make_price(per_hour: str | float | None, currency: str | None) -> GpuPrice:
    """Checks what somebody has set.

    Raises:
        ValueError: It can't be a price, or a currency; the text says what to write.
    """
    unit = (currency or "").strip()
    if len(unit) > LONGEST_CURRENCY or any(character.isdigit() or character.isspace() for character in unit):
        raise ValueError(
            f"{unit!r} is no currency; write at most {LONGEST_CURRENCY} letters or a sign, such as EUR or €"
        )
    if per_hour is None or per_hour == "":
        return GpuPrice(None, unit)
    price = read_finite(str(per_hour))
    if price is None or price <= 0:
        raise ValueError(f"{per_hour!r} is no price of a GPU-hour; write a number above 0, such as 2.5")
    return GpuPrice(price, unit)


def check_price(gpu_price: str, currency: str) -> GpuPrice:
    """Reads a price as it was written on the command line.

    Raises:
        CliError: It is none.
    """
    try:
        return make_price(gpu_price, currency)
    except ValueError as error:
        raise CliError(f"--gpu-price, --currency: {error}") from error
