"""`podtune logs`: which pod and container hold a trial's log, or what of it is in the store."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from podtune.api.pods.pod_template import AGENT_CONTAINER, find_trial_container
from podtune.cli.client.api_client import Api
from podtune.cli.client.former_folders import list_former_folders
from podtune.cli.client.named_api import open_named
from podtune.cli.client.resources import TrialView, get_experiment, get_trial
from podtune.cli.client.store_access import StoreOptions, explain_store_error, open_experiment_store
from podtune.cli.errors import CliError, NoSuchObject, explain_error
from podtune.cli.options import (
    AgentImage,
    Context,
    Kubeconfig,
    Namespace,
    OwnCredentials,
    StoreEndpoint,
    StoreRegion,
    TrialName,
)
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, ResourceNotFound
from podtune.storage.errors import StoreError
from podtune.storage.segments.former import read_all_logs


class PodGone(CliError):
    """The pod whose log was asked for is no longer there."""


def logs(
    trial: TrialName,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines come.")] = False,
    agent: Annotated[bool, typer.Option("--agent", help="The agent's log, not the program's.")] = False,
    stored: Annotated[
        bool, typer.Option("--stored", help="What is in the store (logs.keep): of all attempts and ranks.")
    ] = False,
    rank: Annotated[int | None, typer.Option(min=0, help="Of a trial of several pods: which one's.")] = None,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    agent_image: AgentImage = "",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the log of a Trial's current or last attempt, or what is stored of all of them."""
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials, agent_image)
    if stored and (follow or agent):
        raise CliError("--stored prints what the program has printed so far; leave out --follow and --agent")
    if options != StoreOptions() and not stored:
        raise CliError(
            "--endpoint, --region, --own-credentials and --agent-image say how to read the store; add --stored"
        )
    api, chosen, trial = open_named(trial, kubeconfig, context, namespace)
    view = get_trial(api, chosen, trial)
    if stored:
        lines = read_stored_log(api, chosen, view, options, rank=rank)
    else:
        lines = read_log(api, chosen, view, follow=follow, agent=agent, rank=rank or 0)
    for line in lines:
        typer.echo(line)


def read_stored_log(
    api: Api, namespace: str, trial: TrialView, options: StoreOptions, *, rank: int | None
) -> Iterator[str]:
    """Reads what is stored of a trial's log, line by line, with a title before each attempt and rank.

    Raises:
        CliError: Nothing is stored, or the store can't be read.
        ApiError: The server can't say.
    """
    experiment = get_experiment(api, namespace, trial.experiment)
    title: tuple[str, int] | None = None
    with open_experiment_store(api, experiment, options) as opened:
        try:
            prefix = opened.address.experiment_prefix(experiment.uid)
            former = list_former_folders(experiment, opened.address)
            for line in read_all_logs(opened.store, prefix, former, trial.name, rank=rank):
                if (line.attempt, line.rank) != title:
                    title = (line.attempt, line.rank)
                    yield f"==> attempt {line.number}, rank {line.rank} <=="
                if line.missed:
                    yield f"[podtune: {line.missed} lines are not kept here]"
                yield line.text
        except StoreError as error:
            raise explain_store_error(error, opened.address) from error
    if title is None:
        of_rank = "" if rank is None else f" of rank {rank}"
        raise CliError(
            f"no log{of_rank} of {trial.name} is stored; set logs.keep of {experiment.name}, for pods that start later"
        )


def read_log(api: Api, namespace: str, trial: TrialView, *, follow: bool, agent: bool, rank: int = 0) -> Iterator[str]:
    """Reads the log of a trial's current or last attempt, line by line; of a pod that is gone, what was kept of it.

    With `follow`, it goes on as lines come, until the program ends.

    Raises:
        CliError: There is no pod, or none of this rank, or no log yet.
        ApiError: The server can't say.
    """
    try:
        yield from read_pod_log(api, namespace, trial, {"follow": "true"} if follow else {}, agent=agent, rank=rank)
    except PodGone as error:
        if agent:
            raise
        gone = f"{error}{_tell_of_store(api, namespace, trial)}"
        if not trial.log_tail:
            raise PodGone(gone) from error
        print_note(f"{gone}; the last lines of attempt {trial.tail_attempt} are in the trial's status:")
        yield from trial.log_tail.splitlines()


def _tell_of_store(api: Api, namespace: str, trial: TrialView) -> str:
    """Where the log of a pod that is gone is, if its Experiment has logs kept."""
    try:
        spec = get_experiment(api, namespace, trial.experiment).spec
    except NoSuchObject:  # it is being deleted
        return ""
    kept = (spec.get("logs") or {}).get("keep", "0")
    return "" if kept == "0" else "; --stored reads what is kept of it"


def read_pod_log(
    api: Api,
    namespace: str,
    trial: TrialView,
    params: Mapping[str, str],
    *,
    agent: bool = False,
    rank: int = 0,
    timeout: float | None = None,
) -> Iterator[str]:
    """Reads the log of the pod of a trial's current or last attempt, line by line.

    Args:
        api: The API server.
        namespace: The trial's.
        trial: Whose pod.
        params: What is asked of the API server, such as tailLines.
        agent: Whether the agent's log is read in place of the program's.
        rank: Of a gang, which pod's.
        timeout: Seconds that the log may be silent; None for any time.

    Raises:
        PodGone: The pod is no longer there.
        CliError: There is no pod, or none of this rank, or no log yet.
        ApiError: The server can't say.
    """
    pod = find_pod(trial, rank)
    path = paths.pod(namespace, pod)
    try:
        container = _find_container(api, path, agent=agent)
        yield from api.read_lines(paths.log_of(path), {"container": container, **params}, timeout)
    except ResourceNotFound as error:
        raise PodGone(
            f"the pod {pod} of {trial.name} is gone (spec.podRetention says which are kept, and for how long)"
        ) from error
    except ApiRefusal as error:
        if error.status != http.client.BAD_REQUEST:  # what the kubelet says of a container that has not started
            raise
        raise CliError(f"{trial.name} has no log yet: {trial.status.message or explain_error(error)}") from error


def find_pod(trial: TrialView, rank: int) -> str:
    """Name of the pod of a rank; the status names that of rank 0, `<trial>-<attempt>` or `<trial>-<attempt>-0`.

    A pod that is reused is named after the first trial that it has served.

    Raises:
        CliError: There is no pod, or none of this rank.
    """
    if not trial.pod:
        when, status = "any more" if trial.has_ended else "yet", trial.status
        raise CliError(f"{trial.name} has no pod {when}: {status.message or status.reason or 'it waits for its turn'}")
    own = trial.pod.startswith(f"{trial.name}-")
    attempt, _, of_gang = trial.pod.removeprefix(f"{trial.name}-").partition("-") if own else ("", "", "")
    if rank and not of_gang:
        raise CliError(f"{trial.name} has only one pod, without ranks; leave out --rank")
    return f"{trial.name}-{attempt}-{rank}" if of_gang else trial.pod


def _find_container(api: Api, pod_path: str, *, agent: bool) -> str:
    return AGENT_CONTAINER if agent else find_trial_container(api.get(pod_path)["spec"])
