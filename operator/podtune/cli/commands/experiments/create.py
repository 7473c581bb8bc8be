"""`podtune create`: makes the Experiment of a file, once nothing is wrong with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from podtune.api.document_checks import check_document
from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.client.experiment_file import SourceDocument, read_source_documents
from podtune.cli.client.source_lines import find_line
from podtune.cli.commands.experiments.wait import COMPLETE, await_goal, explain_outcome, parse_goal
from podtune.cli.errors import CliError
from podtune.cli.options import Context, Kubeconfig, ManifestPath, NamedFormat, Namespace, read_duration_option
from podtune.cli.output import print_changed, print_lines, print_note
from podtune.kube import paths
from podtune.kube.errors import ResourceExists
from podtune.kube.manifests import Manifest

_STRICT = {"fieldValidation": "Strict"}
"""A field that the definition does not have is refused, and not dropped."""


def create(
    manifest: ManifestPath,
    *,
    name: Annotated[str | None, typer.Option("--name", help="Another name than the file's.")] = None,
    generate_name: Annotated[
        str | None, typer.Option("--generate-name", metavar="PREFIX", help="A name that begins so and is new.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is complete; the exit code is 0 then.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="How long --wait waits; else for ever.")
    ] = None,
    output: NamedFormat = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Make the Experiment of a file, after a check of all that is in it, and wait for its end if asked to."""
    if name and generate_name:
        raise CliError("--name and --generate-name each name the Experiment; give one of them")
    if timeout is not None and not wait:
        raise CliError("--timeout is for --wait; give that, too")
    limit = None if timeout is None else read_duration_option(timeout, "--timeout")
    body = read_new_experiment(manifest, name, generate_name)
    api, chosen = api_client.open_api(kubeconfig, context, namespace or body["metadata"].get("namespace"))
    made = create_experiment(api, chosen, body)
    called = made["metadata"]["name"]
    said = f"experiment {called} is created; `podtune watch {called}` follows it"
    print_changed([said], output, paths.experiment(chosen, called), lambda _: made)
    if wait:
        ending = explain_outcome(called, await_goal(api, chosen, called, parse_goal(COMPLETE), limit=limit))
        print_lines([ending]) if output is None else print_note(ending)


def read_new_experiment(path: Path, name: str | None, generate_name: str | None) -> dict[str, Any]:
    """The one Experiment of a file, under the name that it is to have.

    Raises:
        CliError: There is none, or several, or something is wrong with it.
    """
    documents = [document for document in read_source_documents(path) if document.value is not None]
    found = [document for document in documents if _is_experiment(document)]
    if len(found) != 1:
        raise CliError(
            f"{path}: the file must contain exactly one {EXPERIMENT_KIND} ({API_VERSION}); it has {len(found)}"
        )
    if others := len(documents) - 1:
        what = "1 other resource is" if others == 1 else f"{others} other resources are"
        print_note(f"{path}: {what} not created; use `kubectl apply`")
    (document,) = found
    body = copy.deepcopy(dict(document.value))
    given = body.get("metadata") or {}
    if isinstance(given, Mapping):
        body["metadata"] = _rename(dict(given), name, generate_name)
    problems = [(find_line(document.node, problem.field), problem) for problem in check_document(body, UNKNOWN_POLICY)]
    for problem, line in document.repeated:
        print_note(f"note: {path}:{line}: {problem}")
    if problems:
        for line, problem in problems:
            print_note(f"{path}:{line}: {problem}")
        raise CliError(f"{path}: nothing is created; correct what is wrong with it")
    return body


def create_experiment(api: Api, namespace: str, body: Mapping[str, Any]) -> Manifest:
    """Makes an Experiment; gives it as the API server has it.

    Raises:
        CliError: There is one of this name.
        ApiError: The server refuses.
    """
    try:
        return api.create(paths.experiments(namespace), body, _STRICT)
    except ResourceExists as error:
        name = body["metadata"].get("name", "")
        raise CliError(
            f"there is an Experiment {name} in namespace {namespace!r}; choose another --name, or --generate-name"
        ) from error


def _is_experiment(document: SourceDocument) -> bool:
    value = document.value
    return isinstance(value, Mapping) and value.get("kind") == EXPERIMENT_KIND


def _rename(metadata: dict[str, Any], name: str | None, generate_name: str | None) -> dict[str, Any]:
    if name or generate_name:
        metadata.pop("name", None)
        metadata.pop("generateName", None)
        metadata |= {"name": name} if name else {"generateName": generate_name}
    return metadata
