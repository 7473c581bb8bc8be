"""Searchers of other packages."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.plugin import Plugin
from podtune.api.tuning.search_space import Parameter
from podtune.tuning.plugins import PluginError, make_plugin
from podtune.tuning.searchers.base import Searcher

_GROUP = "podtune.searchers"
"""The group of their entry points."""


def make_plugin_searcher(plugin: Plugin, parameters: Sequence[Parameter], objective: Objective, seed: int) -> Searcher:
    """Makes a searcher of another package.

    Args:
        plugin: Which, with its settings.
        parameters: The parameters that it chooses values for, in the manifest's order.
        objective: What is optimised.
        seed: The experiment's seed.

    Raises:
        PluginError: It is not installed, or can't be made.
    """
    made = make_plugin(_GROUP, plugin, parameters=parameters, objective=objective, seed=seed)
    if not isinstance(made, Searcher):
        raise PluginError(f"{plugin.name!r} made a {type(made).__name__}, which is no Searcher; tell its author")
    return made
