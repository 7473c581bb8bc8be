"""`podtune retry`: ends the current attempt of a Trial, so that a new one goes on with the present trialTemplate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView, read_trial_with_spec
from podtune.cli.commands.lifecycle import has_store
from podtune.cli.errors import CliError
from podtune.cli.options import Context, Kubeconfig, Namespace, TrialName
from podtune.kube import paths

_WAITS_FOR_TIME = frozenset({TrialReason.BACKING_OFF, TrialReason.NOT_PLACED})
"""Reasons of trials without a pod that wait for a moment, not for a slot."""


def retry(name: TrialName, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Have a Trial go on from its last checkpoint in new pods, which have the present trialTemplate."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    typer.echo(request_retry(api, chosen, name))


def request_retry(api: Api, namespace: str, name: str) -> str:
    """Asks for the end of a Trial's current attempt; says in a sentence what will happen.

    The request names the attempt, so one that has begun meanwhile is not touched.

    Raises:
        CliError: There is no such Trial, or nothing of it that can be retried.
    """
    trial, spec = read_trial_with_spec(api, namespace, name)
    _check(trial, spec)
    attempt = find_current_attempt(trial)
    api.patch(paths.trial(namespace, name), {"spec": {"retry": {"attempt": attempt}}})
    if trial.status.reason in _WAITS_FOR_TIME:
        return f"attempt {attempt} of trial {name} starts as soon as a slot is free"
    if not trial.is_running:
        return f"the pods of attempt {attempt} of trial {name} are replaced"
    if not has_store(api, namespace, trial.experiment):
        return f"attempt {attempt} of trial {name} ends; the next one starts from scratch (no checkpoints.store)"
    return f"attempt {attempt} of trial {name} stores a checkpoint and ends; the next one goes on from there"


def find_current_attempt(trial: TrialView) -> int:
    """Number of the attempt that runs or comes next: the one after the last that has ended."""
    last = trial.status.last_attempt
    return (last.attempt if last is not None else 0) + 1


def _check(trial: TrialView, spec: Mapping[str, Any]) -> None:
    name, experiment = f"trial {trial.name}", trial.experiment
    if trial.state == TrialState.ERROR:
        raise CliError(
            f"{name} has ended (ERROR); when its experiment has ended, `podtune resume {experiment} --errored Resume` "
            "runs its failed trials again"
        )
    if trial.has_ended:
        raise CliError(f"{name} has ended ({trial.state}); you can't retry it")
    if spec.get("desiredState") == DesiredState.PAUSED:
        raise CliError(
            f"{name} is paused by its user; `podtune resume {trial.name}` has it go on, with the present template"
        )
    if trial.state == TrialState.PAUSED:
        raise CliError(f"{name} is paused; it goes on by itself, with the present template")
    if trial.status.reason == TrialReason.QUEUED or not trial.status.reason:
        raise CliError(f"{name} waits for a free slot; it starts by itself, with the present template")
