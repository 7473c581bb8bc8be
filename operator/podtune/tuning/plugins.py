"""Searchers, schedulers and stoppers of other packages, found by their entry points.

A package offers them in its own pyproject.toml:

    [project.entry-points."podtune.searchers"]
    hill-climbing = "my_package:make"

What is named there is called with keyword arguments: a searcher's maker with `parameters`, `objective`, `settings` and
`seed`, a scheduler's with `objective`, `settings` and `seed`, a stopper's with `objective` and `settings`. It answers
settings that it can't work with by a ValueError that says which, and what to write instead.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from podtune.api.conditions import clip
from podtune.api.tuning.plugin import Plugin

PluginT = TypeVar("PluginT")
_MAX_ERROR = 400
"""How many characters of an error people are shown: what to do about it follows."""
_MAX_FRAMES = 8
"""How many calls of a traceback are logged, the innermost."""


class PluginError(ValueError):
    """A plugin can't be used; the text names it, and what to do."""


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """What a plugin has failed at: scheduler or stopper, the experiment is held for it in the same way.

    Attributes:
        message: Which plugin, at what, with which error, and what to do: a sentence for people.
        trace: Where in its code, for whoever corrects it: a traceback.
    """

    message: str
    trace: str = ""


def describe_failure(field: str, plugin: Plugin, failed_at: str, error: Exception, follows: str) -> PluginFailure:
    """Describes an error that a plugin has raised.

    Args:
        field: Where the plugin stands in the Experiment, such as scheduler.plugin.
        plugin: The plugin.
        failed_at: What it failed at, such as `in choose()`.
        error: The error.
        follows: What to do about it, and what happens until then.
    """
    message = f"spec.{field}: {plugin.name!r} failed {failed_at} ({_write_error(error)}); {follows}"
    return PluginFailure(message, "".join(traceback.format_exception(error, limit=-_MAX_FRAMES)))


def _write_error(error: Exception) -> str:
    """Class and message of an error; somebody else's class may be unable to say the latter."""
    try:
        return clip(f"{type(error).__name__}: {error}", _MAX_ERROR)
    except Exception:  # noqa: BLE001 - its class says at least what it is
        return type(error).__name__


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
