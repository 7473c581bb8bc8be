"""JSON for programs: what every reader of JSON takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(facts: Mapping[str, Any]) -> str:
    """Writes facts as JSON; a number that is not finite, which JSON has no word for, becomes null."""
    return json.dumps(_finite(facts), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
