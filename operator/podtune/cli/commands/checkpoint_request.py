"""`podtune checkpoint`: has a running Trial store a checkpoint now, without a pause."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Annotated

import typer

from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView, get_trial
from podtune.cli.commands.lifecycle import has_store
from podtune.cli.errors import CliError, TimeRanOut
from podtune.cli.options import Context, Kubeconfig, NamedFormat, Namespace, TrialName, read_duration_option
from podtune.cli.output import print_changed
from podtune.kube import paths

_POLL_SECONDS = 1.0


def request_checkpoint(
    name: TrialName,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is stored, and print its URI.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long --wait waits.")] = "10m",
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have a running Trial store a checkpoint now, and train on."""
    limit = read_duration_option(timeout, "--timeout")
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    asked = ask_for_checkpoint(api, chosen, name, str(uuid.uuid4()))
    said = f"trial {name} is asked for a checkpoint; status.checkpointRequest will name it"
    if wait:
        said = await_checkpoint(api, chosen, name, asked, limit=limit, clock=time.monotonic, sleep=time.sleep)
    print_changed([said], output, paths.trial(chosen, name), api.get)


def ask_for_checkpoint(api: Api, namespace: str, name: str, request_id: str) -> str:
    """Asks for a checkpoint; returns the request's id.

    Raises:
        CliError: There is no such Trial, it does not run, or there is nowhere to store a checkpoint.
    """
    trial = get_trial(api, namespace, name)
    if not trial.is_running:
        raise CliError(f"trial {name} does not run ({trial.state}); only a running trial can store a checkpoint")
    if not has_store(api, namespace, trial.experiment):
        raise CliError(
            f"trial {name} can't store a checkpoint, because Experiment {trial.experiment} has no checkpoints.store; "
            "add one"
        )
    api.patch(paths.trial(namespace, name), {"spec": {"checkpointRequest": {"id": request_id}}})
    return request_id


def await_checkpoint(
    api: Api,
    namespace: str,
    name: str,
    request_id: str,
    *,
    limit: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> str:
    """Waits for the checkpoint that answers a request; returns its URI.

    Raises:
        TimeRanOut: It was not stored in time.
        CliError: The trial has ended before, or somebody has asked for another one.
    """
    until = clock() + limit
    while True:
        trial = get_trial(api, namespace, name)
        taken = trial.status.checkpoint_request
        if taken is not None and taken.id == request_id and taken.checkpoint is not None:
            return taken.checkpoint.uri
        _check_goes_on(trial, request_id)
        if clock() >= until:
            raise TimeRanOut(
                f"trial {name} has stored no checkpoint within {limit:g} s; its program has to report one when "
                "trial.should_checkpoint() returns true; the request stays, see status.checkpointRequest"
            )
        sleep(_POLL_SECONDS)


def _check_goes_on(trial: TrialView, request_id: str) -> None:
    if trial.has_ended:
        raise CliError(f"trial {trial.name} has ended ({trial.state}) before it stored the checkpoint")
    if trial.requested_checkpoint != request_id:
        raise CliError(f"somebody has asked trial {trial.name} for another checkpoint meanwhile; ask again")
