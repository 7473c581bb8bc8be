"""Searchers, schedulers and stoppers of other packages, found by their entry points.

A package offers them in its own pyproject.toml:

    [project.entry-points."podtune.searchers"]
    hill-climbing = "my_package:make"

What is named there is called with keyword arguments: a searcher's maker with `parameters`, `objective`, `settings` and
`seed`, a scheduler's with `objective`, `settings` and `seed`, a stopper's with `objective` and `settings`. It answers
settings that it can't work with by a ValueError that says which, and what to write instead.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from podtune.api.tuning.plugin import Plugin

PluginT = TypeVar("PluginT")


class PluginError(ValueError):
    """A plugin can't be used; the text names it, and what to do."""


def make_plugin(group: str, plugin: Plugin, expected: type[PluginT], **arguments: Any) -> PluginT:
    """Makes what another package offers.

    Raises:
        PluginError: It is not installed, can't be made, or is something else.
    """
    return make_from_entry(find_entry(group, plugin), plugin, expected, **arguments)


def find_entry(group: str, plugin: Plugin) -> EntryPoint:
    """Finds what another package offers; this reads the list of all installed packages.

    Raises:
        PluginError: It is not installed.
    """
    installed = {entry.name: entry for entry in entry_points(group=group)}
    entry = installed.get(plugin.name)
    if entry is None:
        there = f"installed: {', '.join(sorted(installed))}" if installed else "installed: none"
        raise PluginError(
            f"{plugin.name!r} is not installed in the operator's image ({there}); install a package that has it as an "
            f"entry point of {group}, or correct the name"
        )
    return entry


def make_from_entry(entry: EntryPoint, plugin: Plugin, expected: type[PluginT], **arguments: Any) -> PluginT:
    """Makes what an entry point names.

    Raises:
        PluginError: It can't be made, or is something else.
    """
    try:
        made = entry.load()(settings=dict(plugin.settings), **arguments)
    except ValueError as error:
        raise PluginError(f"{plugin.name!r} refuses its settings: {error}") from error
    except Exception as error:  # what somebody else's code does can fail in any way
        problem = f"{type(error).__name__}: {error}"
        raise PluginError(f"{plugin.name!r} ({entry.value}) can't be created ({problem}); tell its author") from error
    if not isinstance(made, expected):
        made_type, name = type(made).__name__, expected.__name__
        raise PluginError(f"{plugin.name!r} made a {made_type}, which is not a {name}; tell its author")
    return made
