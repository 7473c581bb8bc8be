"""Where the object is that somebody has named: in a cluster, or in the directory of a `podtune run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from podtune.api.names import EXPERIMENT_KIND, GROUP, TRIAL_KIND
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError

_KINDS = tuple(f"{kind.lower()}{group}/" for kind in (EXPERIMENT_KIND, TRIAL_KIND) for group in ("", f".{GROUP}"))


def open_named(name: str, kubeconfig: Path | None, context: str | None, namespace: str | None) -> tuple[Api, str, str]:
    """Opens what holds an object.

    Args:
        name: Name of the object; of one in a run's directory the path: `podtune-runs/digits` is the Experiment,
            `podtune-runs/digits/digits-3` a Trial of it.
        kubeconfig: Where clusters are described.
        context: Which of them.
        namespace: Which namespace there.

    Returns:
        What answers for it, the namespace, and the object's own name.

    Raises:
        CliError: It is the path of no run.
        KubeconfigError: No way to a cluster is known.
    """
    if "/" not in name or name.startswith(_KINDS):
        api, chosen = api_client.open_api(kubeconfig, context, namespace)
        return api, chosen, name
    from podtune.cli.client import run_directory  # noqa: PLC0415 - commands about a cluster do without it

    if kubeconfig or context or namespace:
        raise CliError(f"{name} is read without a cluster; leave out -n, --context and --kubeconfig")
    path = Path(name)
    for directory, own in ((path, ""), (path.parent, path.name)):
        if run_directory.is_run_directory(directory):
            run = run_directory.RunDirectoryApi(directory)
            return run, run_directory.LOCAL_NAMESPACE, own or run.experiment
    raise CliError(f"{name} is no run's directory, nor is {path.parent}; name one, such as podtune-runs/NAME")


def open_all_named(
    names: Sequence[str], kubeconfig: Path | None, context: str | None, namespace: str | None
) -> tuple[Api, str, list[str]]:
    """Opens what holds several objects, all in one place; raises as `open_named`."""
    api, chosen, first = open_named(names[0], kubeconfig, context, namespace)
    folder = names[0].rpartition("/")[0] if first != names[0] else ""
    prefix = f"{folder}/" if folder else ""
    strays = [name for name in names[1:] if "/" in name and not name.startswith(prefix)] if prefix else []
    if strays:
        raise CliError(f"{names[0]} and {strays[0]} are of different runs; name trials of one")
    return api, chosen, [first, *(name.removeprefix(prefix) for name in names[1:])]
