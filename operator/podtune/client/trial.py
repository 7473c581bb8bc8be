"""A Trial, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podtune.api.json_values import canonicalize
from podtune.api.tuning.search_space import format_value
from podtune.cli.client.resources import ExperimentView, TrialView, get_experiment, get_trial
from podtune.cli.commands import retry
from podtune.client.errors import InvalidArgument
from podtune.client.facts import TrialFacts
from podtune.client.manifest import to_plain
from podtune.client.session import ClusterSession
from podtune.client.steering import Steering


class Trial(TrialFacts):
    """A Trial as it was when it was read; `refresh` reads it anew."""

    def __init__(self, session: ClusterSession, view: TrialView, experiment: ExperimentView) -> None:
        """Is made by an Experiment."""
        super().__init__(view, experiment)
        self._session = session
        self._steering = Steering(session, experiment.namespace, f"trial/{view.name}")

    def refresh(self) -> Trial:
        """Reads it anew.

        Raises:
            PodtuneError: It is gone, or the API server does not say.
        """
        name, namespace = self.name, self.namespace
        view = self._session.call(lambda api: get_trial(api, namespace, name))
        experiment = self._session.call(lambda api: get_experiment(api, namespace, view.experiment))
        return Trial(self._session, view, experiment)

    def pause(self) -> str:
        """Has it store a checkpoint and give its pod back; returns in a sentence what will happen.

        Raises:
            NotPossible: It has ended, or has nowhere to store a checkpoint.
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steering.pause()

    def resume(self, *, parameters: Mapping[str, Any] | None = None) -> str:
        """Has it go on where it was; returns in a sentence what will happen.

        Args:
            parameters: Other values than before, by the parameters' names.

        Raises:
            NotPossible: It has ended, it runs, or the search space does not allow the values.
            PodtuneError: The API server refuses, or does not answer.
        """
        values = [f"{name}={_write_value(name, value)}" for name, value in (parameters or {}).items()]
        return self._steering.resume(values)

    def stop(self) -> str:
        """Ends it for good; what it has learnt is kept. Returns in a sentence what will happen.

        Raises:
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steering.stop()

    def retry(self, *, step: int | None = None) -> str:
        """Has it go on in new pods, which have the present trialTemplate; returns in a sentence what will happen.

        Args:
            step: Iteration of the checkpoint that it goes on from; else the last one.

        Raises:
            NotPossible: It has ended, waits by itself, or has no such checkpoint.
            PodtuneError: The API server refuses, or does not answer.
        """
        if step is None:
            return self._session.call(lambda api: retry.request_retry(api, self.namespace, self.name))
        wanted = check_step(step)
        return self._session.call(lambda api: retry.request_return(api, self.namespace, self.name, wanted))


def check_step(step: object) -> int:
    """Checks that an argument is a training iteration.

    Raises:
        InvalidArgument: It is none.
    """
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise InvalidArgument(f"step: {step!r} is no iteration; give a whole number of at least 0")
    return step


def _write_value(name: str, value: object) -> str:
    """A parameter's value as the command line takes it."""
    plain = to_plain(f"parameters: {name}", value)
    if isinstance(plain, list | dict):
        return canonicalize(plain)
    if plain is None:
        raise InvalidArgument(f"parameters: {name}: None is no value; give a number, a text, a list or a map")
    return format_value(plain)
