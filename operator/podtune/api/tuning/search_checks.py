"""Checks whether `search` is consistent with the rest of an Experiment."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.base import FieldError
from podtune.api.tuning.configuration import ConfigurationRules, InvalidConfiguration
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.search import UNLIMITED, SearchSpec
from podtune.api.tuning.search_space import format_value
from podtune.api.tuning.stop import Stop

REPEATABLE = frozenset({"fifo", "asha", "median"})
"""Schedulers for which each repeat of a configuration is a trial like any other. The others give a configuration's
trials to a bracket, or change what they run with; or they learn from rungs, of which a mean says nothing."""


def check_search(
    search: SearchSpec, rules: ConfigurationRules, objective: Objective, scheduler: str, stop: Stop
) -> None:
    """Refuses what can't work.

    Raises:
        FieldError: With the field, the value and the remedy; the path starts at the Experiment's spec.
    """
    if search.max_trials == UNLIMITED and not stop.has_budget:
        raise FieldError(
            "search.maxTrials",
            "unlimited, but nothing in stop ends the experiment; set stop.totalTime or another budget, or set a number",
        )
    if search.repeats > 1 and scheduler not in REPEATABLE:
        raise FieldError(
            "search.repeats",
            f"{search.repeats} can't be combined with scheduler {scheduler}; use {', '.join(sorted(REPEATABLE))}, or 1",
        )
    _check_grid(search, rules)
    _check_initial(search, rules, objective)


def _check_grid(search: SearchSpec, rules: ConfigurationRules) -> None:
    """Refuses a grid of parameters that nobody chooses values for, or that exist beside some draws alone."""
    names = search.grid.parameters if search.grid is not None else []
    sampled = rules.sampled
    for index, name in enumerate(names):
        path = f"search.grid.parameters[{index}]"
        if name not in sampled:
            raise FieldError(
                path, f"{name!r} is no parameter that a value is chosen for; use one of {', '.join(sampled)}"
            )
        if name in names[:index]:
            raise FieldError(path, f"{name!r} is listed twice; remove it here")
        drawn = [parent for parent in rules.dependencies.closures[name] if parent in sampled and parent not in names]
        if drawn:
            raise FieldError(
                path,
                f"{name!r} does not exist beside every value of {drawn[0]}, which is drawn at random; add {drawn[0]}, "
                f"or remove {name}",
            )


def _check_initial(search: SearchSpec, rules: ConfigurationRules, objective: Objective) -> None:
    seen: dict[Sequence[tuple[str, str]], int] = {}
    for index, entry in enumerate(search.initial):
        path = f"search.initial[{index}]"
        try:
            configuration = rules.complete(entry.parameters)
        except FieldError as error:
            raise FieldError(f"{path}.parameters.{error.path}", error.problem) from error
        except InvalidConfiguration as refused:
            raise FieldError(f"{path}.parameters", f"{refused}; change a value") from refused
        if entry.is_known and entry.restore_from is not None:
            raise FieldError(
                f"{path}.restoreFrom",
                "is set for a trial that does not run, because its results are known; remove one of them",
            )
        missing = [criterion.metric for criterion in objective.criteria if criterion.metric not in entry.results]
        if entry.is_known and missing:
            raise FieldError(
                f"{path}.results", f"lacks {missing[0]}, which is optimised; add it, or remove results to run the trial"
            )
        key = tuple((name, format_value(value)) for name, value in configuration.items())
        if not entry.is_known and key in seen:
            raise FieldError(f"{path}.parameters", f"are those of initial[{seen[key]}]; remove one, or use repeats")
        if not entry.is_known:
            seen[key] = index
    trials = len(seen) * search.repeats
    if trials > search.trial_limit:
        raise FieldError(
            "search.initial",
            f"makes {trials} trials, more than maxTrials {search.max_trials}; raise maxTrials or remove some",
        )
