"""What a searcher drew for parameters that a condition then left out.

Methods that work on vectors have to know it when they are told of the trial, as if it had had an effect. It is neither
in the configuration nor in the Trial's parameters, so it is recorded with the proposal: positions of choices and
numbers to six digits, in the manifest's order, which takes less than 1,000 characters for 64 parameters.
"""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.tuning.search_space import ChoiceDomain, Domain, IntDomain, Parameter, Scalar, format_value
from podtune.tuning.domains.quantiles import compute_value_at
from podtune.tuning.searchers.base import Attributes, Configuration

INACTIVE = "inactive"
"""The attribute of a proposal that holds it."""


def write_inactive(sampled: Sequence[Parameter], drawn: Configuration, configuration: Configuration) -> str:
    """Writes down the drawn values that a configuration is without."""
    return ",".join(_write(p.domain, drawn[p.name]) for p in sampled if p.name not in configuration)


def restore_inactive(sampled: Sequence[Parameter], values: Configuration, attributes: Attributes) -> dict[str, Scalar]:
    """The values with those that were left out; the middle of its domain where a value was never drawn."""
    missing = [parameter for parameter in sampled if parameter.name not in values]
    if not missing:
        return dict(values)
    if INACTIVE in attributes:
        written = attributes[INACTIVE].split(",")
        read = {p.name: _read(p.domain, text) for p, text in zip(missing, written, strict=True)}
    else:
        read = {parameter.name: compute_value_at(parameter.domain, 0.5) for parameter in missing}
    return {p.name: values[p.name] if p.name in values else read[p.name] for p in sampled}


def _write(domain: Domain, value: Scalar) -> str:
    if isinstance(domain, ChoiceDomain):
        return str([format_value(choice) for choice in domain.values].index(format_value(value)))
    return f"{float(value):.6g}"


def _read(domain: Domain, text: str) -> Scalar:
    """The value, or one next to it."""
    if isinstance(domain, ChoiceDomain):
        return domain.values[int(text)]
    number = float(text)
    if domain.min is not None:
        number = max(number, domain.min)
    if domain.max is not None:
        number = min(number, domain.max)
    return round(number) if isinstance(domain, IntDomain) else number
