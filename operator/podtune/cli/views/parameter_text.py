"""A parameter of the search space in a sentence, as `describe` prints it.

It reads the manifest and not the model: a newer operator may know kinds of parameters that this program does not, and
those are shown, too, if in plainer words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

SHOWN_VALUES = 12
"""How many entries of a longer list are shown, including the last one."""
PLAIN = re.compile(r"[^\s,\"']+")


def describe_parameters(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each parameter, with the names in a column of their own."""
    width = max((len(str(parameter.get("name", ""))) for parameter in parameters), default=0) + 1
    return [
        f"{parameter.get('name', '')}:".ljust(width) + f" {describe_parameter(parameter)}" for parameter in parameters
    ]


def describe_parameter(parameter: Mapping[str, Any]) -> str:
    """What a parameter can be, and when it exists: `float from 0.0001 to 0.1, log scale; if optimizer is sgd`."""
    kind, domain = next(((k, d) for k, d in parameter.items() if k not in ("name", "when") and d is not None), ("", {}))
    sentence = _describe_domain(kind, domain)
    conditions = parameter.get("when") or {}
    if not conditions:
        return sentence
    held = (f"{name} is {_format_alternatives(values or (), 'or')}" for name, values in conditions.items())
    return f"{sentence}; only if {' and '.join(held)}"


def _describe_domain(kind: str, domain: Any) -> str:
    match kind, domain:
        case "float" | "int", {"min": low, "max": high}:
            return _join(
                f"{kind} from {_format_value(low)} to {_format_value(high)}",
                _describe_steps(kind, domain),
                _describe_scale(domain),
            )
        case "choice", {"values": values}:
            return f"one of {_format_alternatives(values, '')}"
        case "normal", {"mean": mean, "stddev": stddev}:
            step = domain.get("step")
            rounded = f"in multiples of {_format_value(step)}" if step is not None else ""
            return _join(
                f"normal with mean {_format_value(mean)}, stddev {_format_value(stddev)}",
                _describe_bounds(domain),
                rounded,
            )
        case "logNormal", {"mean": mean, "stddev": stddev}:
            about = f"log-normal, its logarithm with mean {_format_value(mean)}, stddev {_format_value(stddev)}"
            return _join(about, _describe_bounds(domain))
        case "fixed", {"value": value}:
            return f"always {_format_value(value)}"
        case "expression", str():
            return f"computed as {' '.join(domain.split())}"
        case _:
            return _describe_unknown(kind, domain)


def _describe_unknown(kind: str, domain: Any) -> str:
    if not isinstance(domain, Mapping):
        return f"{kind} {_format_value(domain)}"
    settings = ", ".join(f"{name} {_format_value(value)}" for name, value in domain.items() if value is not None)
    return f"{kind} ({settings})" if settings else kind or "unknown"


def _join(*phrases: str) -> str:
    return ", ".join(phrase for phrase in phrases if phrase)


def _describe_steps(kind: str, domain: Mapping[str, Any]) -> str:
    step = domain.get("step")
    is_default = step is None or (kind == "int" and step == 1)
    return "" if is_default else f"in steps of {_format_value(step)}"


def _describe_scale(domain: Mapping[str, Any]) -> str:
    scale = domain.get("scale") or "linear"
    return "" if scale == "linear" else f"{scale} scale"


def _describe_bounds(domain: Mapping[str, Any]) -> str:
    low, high = domain.get("min"), domain.get("max")
    if low is not None and high is not None:
        return f"cut off below {_format_value(low)} and above {_format_value(high)}"
    if low is not None:
        return f"cut off below {_format_value(low)}"
    return "" if high is None else f"cut off above {_format_value(high)}"


def _format_alternatives(values: Sequence[Any], last: str) -> str:
    """Values in a row; of very many the first ones, and the last."""
    written = [_format_value(value) for value in values]
    if len(written) > SHOWN_VALUES:
        return f"{len(written)} values: {', '.join(written[: SHOWN_VALUES - 1])}, …, {written[-1]}"
    if last and len(written) > 1:
        return f"{', '.join(written[:-1])} {last} {written[-1]}"
    return ", ".join(written)


def _format_value(value: Any) -> str:
    """As the trial sees it; a text that would not stand out as one value is in quotes."""
    if isinstance(value, str) and PLAIN.fullmatch(value):
        return value
    return str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
