"""Schedulers of other packages."""

from __future__ import annotations

from podtune.api.tuning.objective import Objective
from podtune.api.tuning.plugin import Plugin
from podtune.tuning.plugins import PluginError, make_plugin
from podtune.tuning.schedulers.base import Scheduler

_GROUP = "podtune.schedulers"
"""The group of their entry points."""


def make_plugin_scheduler(plugin: Plugin, objective: Objective, seed: int) -> Scheduler:
    """Makes a scheduler of another package.

    Args:
        plugin: Which, with its settings.
        objective: What is optimised.
        seed: The experiment's seed.

    Raises:
        PluginError: It is not installed, or can't be made.
    """
    made = make_plugin(_GROUP, plugin, objective=objective, seed=seed)
    if not isinstance(made, Scheduler):
        raise PluginError(f"{plugin.name!r} made a {type(made).__name__}, which is no Scheduler; tell its author")
    return made
