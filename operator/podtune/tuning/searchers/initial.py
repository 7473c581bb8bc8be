"""Configurations from the manifest: what a searcher is told of them, and which are proposed in its place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.prior_knowledge import MAX_INITIAL, InitialConfiguration
from podtune.api.tuning.search_space import Parameter, format_value
from podtune.tuning.searchers.base import Observation, Proposal, Searcher
from podtune.tuning.searchers.spaces.active_space import ActiveSpace


def introduce(
    searcher: Searcher,
    space: ActiveSpace,
    initial: Sequence[InitialConfiguration],
    objective: Objective,
    *,
    skipped: Collection[int],
) -> None:
    """Tells a searcher what the manifest knows, before all else.

    Args:
        searcher: The searcher, which has been told nothing.
        space: The space.
        initial: The manifest's `search.initial`.
        objective: What is optimised.
        skipped: Places of those that are proposed in the searcher's place before it proposes anything itself.
    """
    for place, entry in enumerate(initial):
        configuration = space.complete(entry.parameters)
        if place in skipped or entry.is_known:
            searcher.skip(configuration)
        if entry.is_known:
            value, *others = (entry.results[criterion.metric] for criterion in objective.criteria)
            searcher.tell(Observation(place - MAX_INITIAL, configuration, value, step=0, others=tuple(others)))


def propose_initial(space: ActiveSpace, entry: InitialConfiguration) -> Proposal:
    """What is proposed from an entry of the manifest."""
    return Proposal(space.complete(entry.parameters))


def find_place(
    number: int,
    parameters: Mapping[str, str],
    space: Sequence[Parameter],
    initial: Sequence[InitialConfiguration],
) -> int | None:
    """The place of the entry that has a number if entries have the first ones, and these parameters; else None.

    Args:
        number: A proposal's number.
        parameters: Its configuration, as a Trial holds it.
        space: All parameters of the manifest.
        initial: Its `search.initial`.
    """
    places = [place for place, entry in enumerate(initial) if not entry.is_known]
    if number >= len(places):
        return None
    configuration = ActiveSpace(space).complete(initial[places[number]].parameters)
    written = {name: format_value(value) for name, value in configuration.items()}
    return places[number] if written == dict(parameters) else None
