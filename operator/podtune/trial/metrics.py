"""The values of a result: flat, by name, each a number, a text or a boolean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from podtune.trial.layout import RESERVED_KEYS

Value = Union[float, int, str, bool]


def flatten(metrics: Mapping[str, Any]) -> dict[str, Value]:
    """Makes a result's values flat and plain: `{"val": {"loss": x}}` becomes `{"val/loss": x}`.

    Args:
        metrics: What a program reports. Scalars of NumPy, PyTorch and the like are taken by their `item()`.
            NaN and infinities are values like any other.

    Raises:
        TypeError: A value is not a number, a text or a boolean; the message names its key.
        ValueError: A key is empty, reserved, or there twice once flattened.
    """
    flat: dict[str, Value] = {}
    for key, value in _leaves(metrics, ""):
        if key in flat:
            raise ValueError(f"metric {key!r} is there twice once nested metrics are flattened; rename one of them")
        flat[key] = _make_plain(key, value)
    return flat


def _leaves(metrics: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in metrics.items():
        if not isinstance(key, str) or not key:
            raise ValueError(f"metric {prefix}{key!r}: a metric's name must be a text that is not empty")
        name = prefix + key
        if name in RESERVED_KEYS:
            raise ValueError(f"metric {name!r} is a reserved name; choose another")
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}/")
        else:
            yield name, value


def _make_plain(key: str, value: Any) -> Value:
    if not isinstance(value, (bool, int, float, str)) and callable(getattr(value, "item", None)):
        try:
            value = value.item()
        except (ValueError, RuntimeError) as error:  # an array of several values
            raise TypeError(f"metric {key!r} is a {type(value).__name__} of several values: {error}") from error
    # Subclasses, such as an enum of texts or numpy.float64, become the plain type that JSON knows.
    for plain in (bool, int, float, str):
        if isinstance(value, plain):
            return plain(value)
    raise TypeError(
        f"metric {key!r} is a {type(value).__name__}; report numbers, texts or booleans, or leave it out of the result"
    )
