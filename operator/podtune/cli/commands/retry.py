"""`podtune retry`: ends the current attempt of a Trial, so that a new one goes on with the present trialTemplate.

With `--step`, the new attempt goes on from an earlier checkpoint. A trial that waits, or is paused, can go back, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from podtune.api.names import DesiredState, TrialReason, TrialState
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView, read_trial_with_spec
from podtune.cli.commands.lifecycle import has_store
from podtune.cli.errors import CliError
from podtune.cli.options import Context, Kubeconfig, NamedFormat, Namespace, TrialName
from podtune.cli.output import print_changed
from podtune.kube import paths
from podtune.runner.scheduling import clones

_HAS_NO_POD = frozenset({TrialReason.BACKING_OFF, TrialReason.NOT_PLACED, TrialReason.QUEUED})
"""Reasons of pending trials without a pod."""
_WAITS_FOR_TIME = frozenset({TrialReason.BACKING_OFF, TrialReason.NOT_PLACED})
"""Reasons of trials without a pod that wait for a moment, not for a slot."""


def retry(
    name: TrialName,
    *,
    step: Annotated[
        int | None,
        typer.Option("--step", metavar="N", min=0, help="Go back to the checkpoint of iteration N, an earlier one."),
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have a Trial go on from its last checkpoint in new pods, which have the present trialTemplate."""
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    said = request_retry(api, chosen, name) if step is None else request_return(api, chosen, name, step)
    print_changed([said], output, paths.trial(chosen, name), api.get)


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


def request_return(api: Api, namespace: str, name: str, step: int) -> str:
    """Asks for a Trial to go back to an earlier checkpoint of its own; says in a sentence what will happen.

    Raises:
        CliError: There is no such Trial, it has ended, or it has no such checkpoint.
    """
    trial, _ = read_trial_with_spec(api, namespace, name)
    _check_not_ended(trial)
    if lack := clones.explain_lack(trial.status, step):
        raise CliError(f"trial {name} {lack}")
    attempt = find_current_attempt(trial)
    api.patch(paths.trial(namespace, name), {"spec": {"retry": {"attempt": attempt, "step": step}}})
    origin = f"the checkpoint of iteration {step}"
    if trial.is_running or (trial.state == TrialState.PENDING and trial.status.reason not in _HAS_NO_POD):
        return f"attempt {attempt} of trial {name} ends; the next one goes on from {origin}"
    return f"attempt {attempt} of trial {name} will start from {origin}"


def find_current_attempt(trial: TrialView) -> int:
    """Number of the attempt that runs or comes next: the one after the last that has ended."""
    last = trial.status.last_attempt
    return (last.attempt if last is not None else 0) + 1


def _check(trial: TrialView, spec: Mapping[str, Any]) -> None:
    name = f"trial {trial.name}"
    _check_not_ended(trial)
    if spec.get("desiredState") == DesiredState.PAUSED:
        raise CliError(
            f"{name} is paused by its user; `podtune resume {trial.name}` has it go on, with the present template"
        )
    if trial.state == TrialState.PAUSED:
        raise CliError(f"{name} is paused; it goes on by itself, with the present template")
    if trial.status.reason == TrialReason.QUEUED or not trial.status.reason:
        raise CliError(f"{name} waits for a free slot; it starts by itself, with the present template")


def _check_not_ended(trial: TrialView) -> None:
    name, experiment = f"trial {trial.name}", trial.experiment
    if trial.state == TrialState.ERROR:
        raise CliError(
            f"{name} has ended (ERROR); when its experiment has ended, `podtune resume {experiment} --errored Resume` "
            "runs its failed trials again"
        )
    if trial.has_ended:
        raise CliError(f"{name} has ended ({trial.state}); you can't retry it")
