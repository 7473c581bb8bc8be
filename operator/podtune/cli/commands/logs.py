"""Which pod and container hold a trial's log."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator

from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import TrialView
from podtune.cli.errors import CliError, Refused
from podtune.kube import paths


def trial_log(
    api: Api,
    namespace: str,
    trial: TrialView,
    note: Callable[[str], None],
    *,
    follow: bool,
    agent: bool,
    rank: int = 0,
) -> Iterator[str]:
    """Reads the log of a trial's current or last attempt, line by line; of a pod that is gone, what was kept of it.

    Args:
        api: The API server.
        namespace: The trial's namespace.
        trial: The trial.
        note: Is told where the lines come from, if not from the pod.
        follow: Whether to go on as lines come, until the program ends.
        agent: The agent's log, not the training program's.
        rank: Which pod's, where an attempt has several.

    Raises:
        CliError: There is no pod, or none of this rank, or no log yet.
    """
    if not trial.pod:
        when = "any more" if trial.has_ended else "yet"
        raise CliError(f"{trial.name} has no pod {when}: {trial.message or trial.reason or 'it waits for its turn'}")
    pod = _pod_of(trial, rank)
    path = paths.pod(namespace, pod)
    try:
        container = _container(api, path, agent=agent)
        params = {"container": container} | ({"follow": "true"} if follow else {})
        yield from api.lines(paths.log_of(path), params)
    except Refused as error:
        if error.status == http.client.BAD_REQUEST:  # what the kubelet says of a container that has not started
            raise CliError(f"{trial.name} has no log yet: {trial.message or error}") from error
        if error.status != http.client.NOT_FOUND:
            raise
        gone = f"the pod {pod} of {trial.name} is gone (spec.podRetention says which are kept, and for how long)"
        if agent or not trial.log_tail:
            raise CliError(gone) from error
        note(f"{gone}; the last lines of attempt {trial.tail_attempt} are in the trial's status:")
        yield from trial.log_tail.splitlines()


def _pod_of(trial: TrialView, rank: int) -> str:
    """Name of the pod of a rank; the status names that of rank 0, `<trial>-<attempt>` or `<trial>-<attempt>-0`.

    A pod that is reused is named after the first trial that it has served.
    """
    own = trial.pod.startswith(f"{trial.name}-")
    attempt, _, of_gang = trial.pod.removeprefix(f"{trial.name}-").partition("-") if own else ("", "", "")
    if rank and not of_gang:
        raise CliError(f"{trial.name} has one pod, and so none of rank {rank}; leave --rank out")
    return f"{trial.name}-{attempt}-{rank}" if of_gang else trial.pod


def _container(api: Api, pod_path: str, *, agent: bool) -> str:
    from podtune.api.pods.pod_template import AGENT_CONTAINER, trial_container  # noqa: PLC0415 - brings pydantic, 0.2 s

    return AGENT_CONTAINER if agent else trial_container(api.get(pod_path)["spec"])
