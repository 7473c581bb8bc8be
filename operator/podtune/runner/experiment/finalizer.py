"""The only finalizer: it holds an Experiment until its checkpoints are deleted, if they are to be deleted with it.

It is set before the first trial's pod exists, so before any checkpoint can. Nothing else has finalizers: a dead
operator must never block a namespace.
"""

from __future__ import annotations

from podtune.api.names import ANNOTATION_IMPORTED, FINALIZER
from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.action_queue import ActionQueue
from podtune.runner.actions import WriteMetadata
from podtune.runner.records import Experiment


class Finalizer:
    """Puts the finalizer on an Experiment, and takes it off."""

    def __init__(self, actions: ActionQueue) -> None:
        self._actions = actions

    def reconcile(self, experiment: Experiment, spec: ExperimentSpec, now: float) -> bool:
        """Has the finalizer follow the policy of an Experiment that is not being deleted.

        On the way, that an import is complete is acknowledged.

        Returns:
            Whether it is as it should be, so that checkpoints may come.
        """
        wanted, there = is_wanted(spec), is_there(experiment)
        if wanted == there and not experiment.imported:
            return True
        finalizers = [*_list_others(experiment), *([FINALIZER] if wanted else [])]
        without = (ANNOTATION_IMPORTED,) if experiment.imported else ()
        self._actions.enqueue(WriteMetadata(experiment.version, tuple(finalizers), without), now)
        return there or not wanted

    def drop(self, experiment: Experiment, now: float) -> None:
        """Takes it off, so that the Experiment can go."""
        self._actions.enqueue(WriteMetadata(experiment.version, tuple(_list_others(experiment))), now)


def is_wanted(spec: ExperimentSpec) -> bool:
    """Whether to delete the Experiment's objects in the bucket along with it."""
    return spec.checkpoints.store is not None and spec.checkpoints.deletion_policy == "Delete"


def is_there(experiment: Experiment) -> bool:
    """Whether the Experiment waits for its checkpoints' deletion."""
    return FINALIZER in experiment.finalizers


def _list_others(experiment: Experiment) -> list[str]:
    return [name for name in experiment.finalizers if name != FINALIZER]
