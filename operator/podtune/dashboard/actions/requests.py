"""Carries an action out against the API server, with the viewer's own token, as the command line does it."""

from __future__ import annotations

from dataclasses import dataclass

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import read_trial_with_spec
from podtune.cli.commands.lifecycle import find_target, request_pause, request_resume, request_stop
from podtune.cli.commands.retry import find_current_attempt, request_retry
from podtune.cli.errors import CliError
from podtune.dashboard.actions.offers import ViewerAction


@dataclass(frozen=True, slots=True)
class ActionTarget:
    """What an action is about.

    Attributes:
        trial: Name of the Trial; empty where it is about the whole Experiment.
    """

    namespace: str
    experiment: str
    trial: str = ""

    @property
    def name(self) -> str:
        """Name of the Trial or the Experiment."""
        return self.trial or self.experiment

    @property
    def path(self) -> str:
        """All its names as one."""
        return "/".join(filter(None, (self.namespace, self.experiment, self.trial)))


def request_action(api: Api, action: ViewerAction, target: ActionTarget, attempt: int) -> str:
    """Asks for an action; says in a sentence what will happen.

    Args:
        api: The API server, as the viewer.
        action: What is asked for.
        target: Of what.
        attempt: The attempt that is to be retried: one that has begun meanwhile is not touched.

    Raises:
        CliError: The present state doesn't allow it.
        ApiError: The API server refuses, or doesn't answer.
    """
    kind = "trial" if target.trial else "experiment"
    if action is ViewerAction.RETRY:
        trial, _ = read_trial_with_spec(api, target.namespace, target.trial)
        if find_current_attempt(trial) != attempt:
            raise CliError(f"attempt {attempt} of trial {trial.name} has ended meanwhile")
        return request_retry(api, target.namespace, target.trial)
    found = find_target(api, target.namespace, f"{kind}/{target.name}")
    match action:
        case ViewerAction.PAUSE:
            return request_pause(api, target.namespace, found)
        case ViewerAction.RESUME:
            return request_resume(api, target.namespace, found)
        case ViewerAction.STOP:
            return request_stop(api, found)
