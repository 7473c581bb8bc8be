"""Where checks are run: in a namespace of their own, which an operator serves."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import typer

from podtune.api.names import GROUP
from podtune.cli.client.api_client import Api
from podtune.cli.commands.conformance.program import CheckImage
from podtune.cli.commands.conformance.running import CheckClock
from podtune.cli.commands.doctor.installation import list_operator_pods, read_operator_settings
from podtune.cli.commands.doctor.rights import name_lacking_rights
from podtune.cli.commands.opt_in.binding import find_role
from podtune.cli.errors import CliError, RightsMissing, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceExists, ResourceNotFound
from podtune.kube.manifests import Manifest

LABEL_CONFORMANCE = f"{GROUP}/conformance"
GIVEN = "given"
"""Its value on a namespace that an administrator has given for checks; one that a run has made has `made`."""
_MADE = "made"
_UNTIL = f"{GROUP}/conformance-until"
"""Annotation: until then at the latest a run is under way there."""
_ENDING_SECONDS = 120.0
_SLACK = timedelta(seconds=120)
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_RIGHTS = {
    (GROUP, "experiments"): ("get", "list", "create", "delete"),
    (GROUP, "trials"): ("get", "patch"),
    ("", "pods"): ("get", "list", "create", "delete"),
    ("", "pods/eviction"): ("create",),
    ("", "services"): ("get", "create", "delete"),
    ("", "secrets"): ("get", "create", "delete"),
    ("", "resourcequotas"): ("get", "create", "patch", "delete"),
    ("", "events"): ("list",),
}
_ON_NAMESPACES = {("", "namespaces"): ("get", "create", "patch", "delete")}
_ON_OPERATOR_PODS = {("", "pods"): ("delete",)}


@dataclass(frozen=True, slots=True)
class InstalledOperator:
    """The operator that is examined.

    Attributes:
        home: Its namespace.
        version: Its version; empty where that is not known.
        image: The agent's image, with the pull Secrets of the operator's pods, which are in `home`.
        namespaces: Those that it serves; empty for all.
        waits_for_opt_in: Whether it serves only namespaces that have opted in.
    """

    home: str
    version: str
    image: CheckImage
    namespaces: tuple[str, ...] = ()
    waits_for_opt_in: bool = False


def find_operator(api: Api, home: str, agent_image: str) -> InstalledOperator:
    """Finds the operator, and what its agents run.

    Args:
        api: The cluster.
        home: Its namespace.
        agent_image: The agent's image, where it is given.

    Raises:
        CliError: There is none, or the caller may not look and has not given the image.
    """
    try:
        pods = list_operator_pods(api, home)
    except ApiRefusal as refusal:
        if refusal.status != http.client.FORBIDDEN:
            raise
        if agent_image:
            return InstalledOperator(home, "", CheckImage(agent_image))
        raise RightsMissing(
            f"you may not list pods in namespace {home}, so the agent's image is not known; give it with --agent-image"
        ) from refusal
    if not pods:
        raise CliError(f"no operator in namespace {home}; install the chart podtune, or give --operator-namespace")
    settings = read_operator_settings(pods[0])
    secrets = tuple(entry["name"] for entry in pods[0]["spec"].get("imagePullSecrets") or ())
    image = CheckImage(
        agent_image or settings.get("PODTUNE_AGENT_IMAGE", ""),
        settings.get("PODTUNE_AGENT_PULL_POLICY") or "IfNotPresent",
        secrets,
    )
    version = (pods[0]["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
    served = tuple(name for name in settings.get("PODTUNE_NAMESPACES", "").split(",") if name)
    return InstalledOperator(home, version, image, served, settings.get("PODTUNE_NAMESPACE_OPT_IN") == "true")


def require_rights(api: Api, namespace: str) -> None:
    """Checks that the caller may do all that most checks need.

    Raises:
        RightsMissing: Something is lacking; the text names it.
    """
    lacking = [
        f"{words}{where}"
        for where, words in (
            (f" in namespace {namespace}", name_lacking_rights(api, namespace, _RIGHTS)),
            ("", name_lacking_rights(api, "", _ON_NAMESPACES)),
        )
        if words
    ]
    if lacking:
        raise RightsMissing(
            f"you may not {'; '.join(lacking)}; have a cluster's administrator run this, or grant you these rights"
        )


def may_delete_operator_pods(api: Api, home: str) -> bool:
    """Whether the caller may kill the operator."""
    return not name_lacking_rights(api, home, _ON_OPERATOR_PODS)


@contextmanager
def open_namespace(
    api: Api, name: str, operator: InstalledOperator, checks: Collection[str], clock: CheckClock, *, keep: bool
) -> Iterator[Callable[[float], None]]:
    """Makes the namespace, or takes the one that was given for this; removes at the end what was made.

    Args:
        api: The cluster.
        name: Its name.
        operator: The operator that has to serve it.
        checks: Names of all checks: no other Experiments may be there.
        clock: How time passes.
        keep: Whether all stays as it is at the end.

    Yields:
        Says for how many seconds from now on somebody works there, so that no other run does.

    Raises:
        typer.BadParameter: The namespace is not one for this.
        CliError: The namespace of an earlier run does not go away.
        ApiError: The server can't say.
    """
    if operator.namespaces and name not in operator.namespaces:
        served = ", ".join(operator.namespaces)
        raise typer.BadParameter(
            f"--run-in: the operator does not serve namespace {name}, but {served}; have a namespace for this added to "
            f"the chart's watchNamespaces, and label it: {_tell_label('NAME')}"
        )
    is_given = _prepare(api, name, checks, clock)

    def announce(seconds: float) -> None:
        until = datetime.now(UTC) + timedelta(seconds=seconds) + _SLACK
        api.patch(paths.namespace(name), {"metadata": {"annotations": {_UNTIL: until.isoformat()}}})

    try:
        announce(0.0)
        if operator.waits_for_opt_in:
            _opt_in(api, name, operator.home)
        yield announce
    finally:
        if keep:
            print_note(f"namespace {name} is kept; to remove it: kubectl delete namespace {name}")
            with suppress(ApiError):
                api.patch(paths.namespace(name), {"metadata": {"annotations": {_UNTIL: None}}})
        else:
            _remove(api, name, clock, is_given=is_given)


def _opt_in(api: Api, name: str, home: str) -> None:
    """Has the operator serve the namespace, as `podtune enable` does."""
    with suppress(ResourceExists):
        api.create(paths.role_bindings(name), find_role(api, home).build_binding(name))


def _tell_label(name: str) -> str:
    return f"kubectl label namespace {name} {LABEL_CONFORMANCE}={GIVEN}"


def _prepare(api: Api, name: str, checks: Collection[str], clock: CheckClock) -> bool:
    """Has an empty namespace there; returns whether it was given rather than made."""
    body: Manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {LABEL_CONFORMANCE: _MADE, **_RESTRICTED}},
    }
    try:
        found = api.get(paths.namespace(name))
    except ResourceNotFound:
        api.create(paths.NAMESPACES, body)
        return False
    owner = (found["metadata"].get("labels") or {}).get(LABEL_CONFORMANCE)
    if owner not in (_MADE, GIVEN):
        raise typer.BadParameter(
            f"--run-in: there is a namespace {name} already, which is not for this; name one that does not exist, or "
            f"give this one for it: {_tell_label(name)}"
        )
    until = (found["metadata"].get("annotations") or {}).get(_UNTIL)
    if until and datetime.fromisoformat(until) > datetime.now(UTC):
        raise typer.BadParameter(
            f"--run-in: another run is under way in namespace {name}, or was killed; wait until {until[:19]} UTC, or "
            "name another namespace"
        )
    if owner == GIVEN:
        others = [item["metadata"]["name"] for item in api.list_all(paths.experiments(name))]
        if strangers := [other for other in others if other not in checks]:
            raise typer.BadParameter(
                f"--run-in: namespace {name} has other Experiments ({', '.join(strangers)}), which the checks would "
                "disturb; name another namespace"
            )
        _delete_experiments(api, name, clock)
        return True
    print_note(f"removing namespace {name}, which an earlier run has left")
    if not _remove(api, name, clock, is_given=False):
        raise CliError(
            f"namespace {name} of an earlier run does not go away; look at kubectl describe namespace {name}"
        )
    api.create(paths.NAMESPACES, body)
    return False


def _remove(api: Api, name: str, clock: CheckClock, *, is_given: bool) -> bool:
    """Removes Experiments, with what they have stored, then the namespace if it was made; whether all is gone."""
    path = paths.namespace(name)
    try:
        _delete_experiments(api, name, clock)
        if is_given:
            api.patch(path, {"metadata": {"annotations": {_UNTIL: None}}})
            return True
        found = api.get(path)
        if "deletionTimestamp" not in found["metadata"]:
            api.delete(path, found["metadata"]["uid"])
        return _await(lambda: not _exists(api, path), clock)
    except ResourceNotFound:
        return True
    except (ApiError, KeyboardInterrupt) as error:
        why = f" ({explain_error(error)})" if isinstance(error, ApiError) else ""
        print_note(f"namespace {name} is still there{why}; to remove it: kubectl delete namespace {name}")
        if isinstance(error, KeyboardInterrupt):
            raise
        return False


def _delete_experiments(api: Api, name: str, clock: CheckClock) -> None:
    """Deletes all Experiments of the namespace, and waits a while until storage pods have deleted what these stored."""
    for item in api.list_all(paths.experiments(name)):
        with suppress(ResourceNotFound):
            api.delete(paths.experiment(name, item["metadata"]["name"]), item["metadata"]["uid"])
    if not _await(lambda: not api.list_all(paths.experiments(name)), clock):
        print_note("an Experiment does not go away; what it has stored may stay in the store")


def _exists(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ResourceNotFound:
        return False
    return True


def _await(is_so: Callable[[], bool], clock: CheckClock) -> bool:
    end = clock.now() + _ENDING_SECONDS
    while not is_so():
        if clock.now() > end:
            return False
        clock.sleep(clock.rng.uniform(0.5, 1.0))
    return True
