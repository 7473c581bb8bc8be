"""The search space as Python writes it: functions named as in Ray Tune that give parameters as a manifest has them.

Where Ray leaves the upper bound of an integer out, so do these functions: the manifest's bounds are both included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from pydantic import ValidationError

from podtune.api.base import FieldError
from podtune.api.tuning.search import GridSettings
from podtune.api.tuning.search_space import Parameter
from podtune.api.validation import NO_FUNCTIONS, explain
from podtune.client.errors import InvalidArgument
from podtune.tuning.searchers.grid import GridSearcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace
from podtune.tuning.searchers.spaces.point_tree import TooManyCombinations


class ParameterDomain(dict[str, Any]):
    """What a parameter's values come from, as the manifest has it: `{"float": {"min": 0.1, "max": 0.5}}`."""

    is_grid = False
    """Whether each of its values is to be tried with each of the other parameters' values."""

    def when(self, **conditions: Sequence[Any]) -> ParameterDomain:
        """The same for trials alone in which each of these parameters has one of the listed values.

            "momentum": uniform(0.5, 0.99).when(optimizer=["sgd"])

        Raises:
            InvalidArgument: A condition is no list of values.
        """
        for name, values in conditions.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise InvalidArgument(f"when: {name}={values!r:.64} is no list; write {name}=[{values!r:.64}]")
        conditional = ParameterDomain(self, when={name: list(values) for name, values in conditions.items()})
        conditional.is_grid = self.is_grid
        return conditional


def uniform(lower: float, upper: float) -> ParameterDomain:
    """Real numbers from `lower` to `upper`."""
    return ParameterDomain(float={"min": lower, "max": upper})


def quniform(lower: float, upper: float, q: float) -> ParameterDomain:
    """Real numbers `lower`, `lower + q`, … up to `upper`."""
    return ParameterDomain(float={"min": lower, "max": upper, "step": q})


def loguniform(lower: float, upper: float) -> ParameterDomain:
    """Real numbers from `lower` to `upper`, drawn evenly on a logarithmic scale."""
    return ParameterDomain(float={"min": lower, "max": upper, "scale": "log"})


def randn(mean: float = 0.0, sd: float = 1.0) -> ParameterDomain:
    """Real numbers of the normal distribution."""
    return ParameterDomain(normal={"mean": mean, "stddev": sd})


def qrandn(mean: float, sd: float, q: float) -> ParameterDomain:
    """Multiples of `q`, by the normal distribution."""
    return ParameterDomain(normal={"mean": mean, "stddev": sd, "step": q})


def randint(lower: int, upper: int) -> ParameterDomain:
    """Whole numbers from `lower` up to, but not including, `upper`."""
    return ParameterDomain(int={"min": lower, "max": _exclude(upper)})


def qrandint(lower: int, upper: int, q: int = 1) -> ParameterDomain:
    """Whole numbers `lower`, `lower + q`, … up to and including `upper`."""
    return ParameterDomain(int={"min": lower, "max": upper, "step": q})


def lograndint(lower: int, upper: int) -> ParameterDomain:
    """Whole numbers from `lower` up to, but not including, `upper`, drawn evenly on a logarithmic scale."""
    return ParameterDomain(int={"min": lower, "max": _exclude(upper), "scale": "log"})


def choice(categories: Sequence[Any]) -> ParameterDomain:
    """One of the listed texts, numbers, booleans, lists or maps.

    Raises:
        InvalidArgument: It is no list.
    """
    return _choose_among("categories", categories)


def grid_search(values: Sequence[Any]) -> ParameterDomain:
    """Each of the listed values, with each value of other grids; parameters with other domains are drawn beside it.

    Raises:
        InvalidArgument: It is no list.
    """
    grid = _choose_among("values", values)
    grid.is_grid = True
    return grid


def expression(text: str) -> ParameterDomain:
    """A value that follows from other parameters: `expression("0.1 * batch_size / 256")`."""
    return ParameterDomain(expression=text)


def read_param_space(param_space: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Reads a search space: what is no domain is the same in all trials.

    Returns:
        Domains by parameter, as a manifest has them.

    Raises:
        InvalidArgument: Something has no place in a search space; the message names it, and what works.
    """
    if not isinstance(param_space, Mapping) or not param_space:
        raise InvalidArgument(f"param_space: {param_space!r:.64} has no parameters; give a dict with a domain for each")
    return {name: _read_entry(name, entry) for name, entry in param_space.items()}


@dataclass(frozen=True, slots=True)
class Grid:
    """What `grid_search` asks for.

    Attributes:
        names: The parameters that are on the grid.
        size: How many points it has, before constraints.
        is_whole: Whether it is all of the space: no other parameter is drawn.
    """

    names: tuple[str, ...]
    size: int
    is_whole: bool


def find_grid(param_space: Mapping[str, Any]) -> Grid | None:
    """The grid of a search space; None where there is no `grid_search`.

    Raises:
        InvalidArgument: Its points can't be counted; the message says why.
    """
    names = [name for name, entry in param_space.items() if isinstance(entry, ParameterDomain) and entry.is_grid]
    if not names:
        return None
    domains = read_param_space(param_space)
    try:
        space = ActiveSpace([Parameter.model_validate({"name": name, **domain}) for name, domain in domains.items()])
        size = GridSearcher(space, GridSettings(parameters=names)).size
    except (FieldError, TooManyCombinations) as error:
        raise InvalidArgument(f"param_space: {error}") from error
    return Grid(tuple(names), size, is_whole=len(space.sampled) == len(names))


def _exclude(upper: Any) -> Any:
    """The highest number below a bound; what is no whole number is left for the check of the domain."""
    return upper - 1 if isinstance(upper, Integral) else upper


def _choose_among(argument: str, values: Sequence[Any]) -> ParameterDomain:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{argument}: {values!r:.64} is no list of values; write one, such as [32, 64]")
    return ParameterDomain(choice={"values": [*values]})


def _read_entry(name: str, entry: Any) -> ParameterDomain:
    where = f"param_space[{name!r}]"
    if callable(entry) or _holds_callable(entry):
        raise InvalidArgument(f"{where}: {entry!r:.80} is or holds a function; {NO_FUNCTIONS}")
    if not isinstance(entry, ParameterDomain) and (inner := _find_domain(entry)):
        raise InvalidArgument(
            f"{where}: has a domain inside ({inner}); parameters can't lie in each other, so give each a name of its "
            f"own, such as {name}_{inner}"
        )
    domain = _write_plainly(entry)
    try:
        Parameter.model_validate({"name": name, **domain})
    except ValidationError as error:
        raise InvalidArgument(f"{where}{explain(error).removeprefix('spec')}") from error
    return domain


def _write_plainly(entry: Any) -> ParameterDomain:
    """The domain with values that JSON has; of a value the domain that holds it alone."""
    if not isinstance(entry, ParameterDomain):
        return ParameterDomain(fixed={"value": _to_json(entry)})
    if "choice" not in entry:
        return entry
    return ParameterDomain(entry, choice={"values": [_to_json(value) for value in entry["choice"]["values"]]})


def _holds_callable(entry: Any) -> bool:
    return isinstance(entry, ParameterDomain) and any(map(callable, entry.get("choice", {}).get("values", ())))


def _find_domain(value: Any) -> str:
    """Where a domain lies in a map or a list; empty where none does."""
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inside:
        if isinstance(entry, ParameterDomain):
            return str(key)
        if deeper := _find_domain(entry):
            return f"{key}_{deeper}"
    return ""


def _to_json(value: Any) -> Any:
    """The value with lists for tuples, and Python's own numbers for NumPy's."""
    match value:
        case bool() | int() | float() | str():
            return value
        case Mapping():
            return {key: _to_json(entry) for key, entry in value.items()}
        case list() | tuple():
            return [_to_json(entry) for entry in value]
        case _:
            return value.item() if type(value).__module__.partition(".")[0] == "numpy" else value
