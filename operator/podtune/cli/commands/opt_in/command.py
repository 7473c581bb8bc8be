"""`podtune enable` and `podtune disable`."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Annotated

import typer

from podtune.api.names import LABEL_EXPERIMENT, LABEL_MANAGED_BY, MANAGED_BY
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.commands.opt_in.binding import OperatorRole, find_role
from podtune.cli.errors import CliError
from podtune.cli.options import Context, ForPrograms, Kubeconfig
from podtune.cli.output import print_facts, print_lines, print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest

NamespaceName = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Name of the namespace.")]
OperatorHome = Annotated[
    str,
    typer.Option(
        "--operator-namespace", metavar="NAMESPACE", help="Where the operator is installed, if there are several."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; with -o yaml, print the manifest for GitOps.")]

_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_EXPERIMENT}"
_MOST_NAMES = 5
_ENDED = {"Succeeded", "Failed"}


def enable(
    namespace: NamespaceName,
    *,
    operator_namespace: OperatorHome = "",
    dry_run: DryRun = False,
    output: ForPrograms = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have the operator serve a namespace, where each has to opt in (namespaceOptIn): make its RoleBinding."""
    api, _ = api_client.open_api(kubeconfig, context, namespace)
    role = find_role(api, operator_namespace)
    binding = role.build_binding(namespace)
    named = f"RoleBinding {binding['metadata']['name']}"
    bound = [] if dry_run and output is not None else _list_bound(api, namespace, role)
    if bound:
        binding = bound[0]
        said = f"namespace {namespace} is enabled already: RoleBinding {binding['metadata']['name']}"
    elif dry_run:
        said = f"namespace {namespace} would be enabled: {named} would be made"
    else:
        binding = _create(api, namespace, binding, role)
        said = f"namespace {namespace} is enabled: {named}; its experiments are served in some seconds"
    if output is None:
        print_lines([said])
    else:
        print_facts(binding, output)


def disable(
    namespace: NamespaceName,
    *,
    operator_namespace: OperatorHome = "",
    dry_run: DryRun = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Have the operator leave a namespace alone: delete its RoleBinding, and say what runs there still."""
    api, _ = api_client.open_api(kubeconfig, context, namespace)
    role = find_role(api, operator_namespace)
    bound = _list_bound(api, namespace, role)
    if not bound:
        print_lines([f"namespace {namespace} is not enabled: no RoleBinding there gives the operator {role.name}"])
        return
    for binding in bound:
        metadata = binding["metadata"]
        if not dry_run:
            api.delete(paths.role_binding(namespace, metadata["name"]), metadata["uid"])
        verb = "would be disabled: RoleBinding {} would be" if dry_run else "is disabled: RoleBinding {} is"
        print_lines([f"namespace {namespace} {verb.format(metadata['name'])} deleted"])
    print_lines([*_list_left(api, namespace)])


def _list_bound(api: Api, namespace: str, role: OperatorRole) -> list[Manifest]:
    """The RoleBindings by which a namespace has opted in."""
    return [binding for binding in api.list_all(paths.role_bindings(namespace)) if role.is_bound_by(binding)]


def _create(api: Api, namespace: str, binding: Manifest, role: OperatorRole) -> Manifest:
    """Makes the RoleBinding.

    Raises:
        CliError: It can't be made; the text says what would help.
    """
    name = binding["metadata"]["name"]
    try:
        return api.create(paths.role_bindings(namespace), binding)
    except ResourceNotFound as refusal:
        raise CliError(
            f"{refusal.message}; is there a namespace {namespace}, and has the operator of namespace {role.home} "
            "namespaceOptIn=true? If it is elsewhere, say so with --operator-namespace"
        ) from refusal
    except ApiRefusal as refusal:
        if refusal.status == http.client.CONFLICT:
            raise CliError(
                f"RoleBinding {name} in namespace {namespace} is there, and binds something else; delete it first"
            ) from refusal
        if refusal.status == http.client.FORBIDDEN:
            print_note(
                f"you may not make this RoleBinding: it takes the right to create RoleBindings in {namespace}, and to "
                f"bind ClusterRole {role.name} (the chart gives both to those with the role admin there); "
                "--dry-run -o yaml prints it for somebody else"
            )
        raise


def _list_left(api: Api, namespace: str) -> Iterator[str]:
    """What runs in a namespace that the operator leaves alone, in sentences."""
    try:
        experiments = api.list_all(paths.experiments(namespace))
        pods = api.list_all(paths.pods(namespace), {"labelSelector": _SELECTOR})
    except ApiRefusal as refusal:
        if refusal.status != http.client.FORBIDDEN:
            raise
        yield f"you may not see what runs there still: {refusal.message}"
        return
    waiting = [item["metadata"]["name"] for item in experiments if not _has_ended(item)]
    running = [pod["metadata"]["name"] for pod in pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    if waiting:
        yield f"not ended, and standing still until the namespace is enabled again: {_name_some(waiting)}"
    if running:
        yield f"running until their programs end: {_name_some(running)}"
        yield f"to end them now: kubectl delete pods -n {namespace} -l {_SELECTOR}"
    if not waiting and not running:
        yield "nothing runs there"


def _has_ended(experiment: Manifest) -> bool:
    return (experiment.get("status") or {}).get("state") in ("Complete", "Failed")


def _name_some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
