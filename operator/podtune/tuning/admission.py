"""Problems of a spec that only the makers of searchers, schedulers and stoppers can find."""

from __future__ import annotations

import importlib.util

from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.plugin import Plugin
from podtune.tuning.plugins import PluginError, make_plugin
from podtune.tuning.schedulers.base import Scheduler
from podtune.tuning.schedulers.factory import make_scheduler
from podtune.tuning.searchers.factory import make_searcher
from podtune.tuning.searchers.spaces.point_tree import TooManyCombinations
from podtune.tuning.stoppers.base import ObservationStopper, Stopper
from podtune.tuning.stoppers.observation_rules import OBSERVATION_STOPPER_PLUGINS
from podtune.tuning.stoppers.plugin_stoppers import STOPPER_PLUGINS

NEEDS_GP_IMAGE = (
    "{} needs scikit-learn, which this operator's image does not have; install the chart with image.variant=gp, "
    "whose image is podtune-operator-gp"
)


def has_gaussian_processes() -> bool:
    """Whether this is the operator's `gp` image, or another place where scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def find_problem(spec: ExperimentSpec) -> str:
    """Says why a spec can never work here; empty where it can.

    Args:
        spec: A spec that is right by itself: plugins may be missing in this image, or refuse their settings, and
            conditions may be too entangled to enumerate.
    """
    algorithm, plugin = spec.search.algorithm, spec.scheduler.plugin
    if algorithm == "gp" and not has_gaussian_processes():
        return f"spec.search.algorithm: {NEEDS_GP_IMAGE.format('gp')}, or use tpe"
    if spec.scheduler.pb2 is not None and not has_gaussian_processes():
        return f"spec.scheduler.pb2: {NEEDS_GP_IMAGE.format('pb2')}, or use pbt"
    if entangled := find_entanglement(spec):
        return f"spec.search.algorithm: {entangled}"
    if spec.search.plugin is not None:
        try:
            make_searcher(spec)
        except PluginError as error:
            return f"spec.search.plugin: {error}"
    if plugin is not None:
        try:
            scheduler = make_scheduler(spec)
        except PluginError as error:
            return f"spec.scheduler.plugin: {error}"
        if problem := _find_time_problem(scheduler, plugin):
            return f"spec.scheduler.plugin: {problem}"
        if scheduler.pauses and spec.checkpoints.store is None:
            return (
                f"spec.checkpoints.store: is missing, but scheduler plugin {plugin.name!r} resumes trials from "
                "checkpoints; set a store"
            )
    return _find_stopper_problem(spec)


def find_entanglement(spec: ExperimentSpec) -> str:
    """Says why an algorithm that goes through all of a space can't go through this one; empty where it can."""
    algorithm = spec.search.algorithm
    if algorithm not in _ENUMERATING:
        return ""
    try:
        make_searcher(spec)
    except TooManyCombinations as error:
        return f"{algorithm} can't enumerate this space: {error}, or use random"
    return ""


def _find_time_problem(scheduler: Scheduler, plugin: Plugin) -> str:
    """Says why nobody could tell by a scheduler how far a trial is; empty where that can be told."""
    try:
        found: object = scheduler.time_attribute
    except Exception as error:  # noqa: BLE001 - it may be anyone's code
        return f"{plugin.name!r} has no time_attribute ({type(error).__name__}: {error}); tell its author"
    return "" if isinstance(found, str) else f"{plugin.name!r} has the time_attribute {found!r}; tell its author"


def _find_stopper_problem(spec: ExperimentSpec) -> str:
    of_trials: type[object] = Stopper
    of_experiment: type[object] = ObservationStopper
    wanted = [(STOPPER_PLUGINS, of_trials, *known) for known in spec.stop.trial_plugins]
    wanted += [(OBSERVATION_STOPPER_PLUGINS, of_experiment, *known) for known in spec.stop.experiment_plugins]
    for group, expected, path, plugin in wanted:
        try:
            make_plugin(group, plugin, expected, objective=spec.objective)
        except PluginError as error:
            return f"spec.stop.{path}: {error}"
    return ""


_ENUMERATING = frozenset({"grid", "bruteForce"})
