"""`podtune validate`: says without a cluster what API server and operator would refuse in manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from podtune.api.base import Problem
from podtune.api.document_checks import check_document, concerns_podtune
from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.pods.template_policy import DEFAULT_POLICY, UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.validation import InvalidSpec, list_problems, parse_experiment
from podtune.cli.client.experiment_file import STANDARD_INPUT, SourceDocument, read_source_documents
from podtune.cli.client.source_lines import find_line
from podtune.cli.errors import CliError, ExitStatus
from podtune.cli.options import ForPrograms
from podtune.cli.output import print_facts, print_lines, print_note

_ENUMERATING = ("grid", "bruteForce")
"""Algorithms that go through all of a space."""
_GP_IMAGE = "operators with the image podtune-operator-gp (image.variant gp)"


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """A mistake in a file.

    Attributes:
        line: Its line, from 1.
    """

    file: str
    line: int
    problem: Problem


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """An Experiment or a Trial, and what is to be said of it.

    Attributes:
        problems: What API server or operator would refuse.
        notes: What they take, and somebody should look at all the same; or refuse unless the administrator allows it or
            the operator's image has it.
    """

    file: str
    line: int
    kind: str
    name: str
    problems: Sequence[FoundProblem]
    notes: Sequence[FoundProblem]


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML or JSON; - is standard input.")],
    output: ForPrograms = None,
) -> None:
    """Check manifests without a cluster: say all that the API server and the operator would refuse, and where.

    The exit code is 1 if anything is wrong. Resources that are not Podtune's are passed over.
    """
    checked = [document for file in files for document in check_file(file)]
    if not checked:
        raise CliError(f"no {EXPERIMENT_KIND} or Trial in {', '.join(map(str, files))}; it needs {API_VERSION}")
    if output is not None:
        print_facts({"valid": not _count(checked), "items": [_collect(document) for document in checked]}, output)
    else:
        _print(checked)
    if _count(checked):
        raise typer.Exit(ExitStatus.FAILED)


def check_file(path: Path) -> list[CheckedDocument]:
    """Checks the Experiments and Trials of a file.

    Raises:
        CliError: It can't be read.
    """
    name = "standard input" if path == STANDARD_INPUT else str(path)
    documents = [
        document
        for document in read_source_documents(path)
        if document.value is not None and concerns_podtune(document.value)
    ]
    experiments = dict(_list_good_experiments(documents))
    return [_check(name, document, experiments) for document in documents]


def _list_good_experiments(documents: Sequence[SourceDocument]) -> Iterator[tuple[str, ExperimentSpec]]:
    """The Experiments that Trials of the same file can be held to."""
    for document in documents:
        if isinstance(document.value, Mapping) and document.value.get("kind") == EXPERIMENT_KIND:
            try:
                yield _read_name(document.value), parse_experiment(document.value, UNKNOWN_POLICY)
            except InvalidSpec:
                continue  # `_check` says so


def _check(file: str, document: SourceDocument, experiments: Mapping[str, ExperimentSpec]) -> CheckedDocument:
    root, value = document.node, document.value
    problems = check_document(value, UNKNOWN_POLICY, experiments)
    found = [FoundProblem(file, find_line(root, problem.field), problem) for problem in problems]
    notes = [FoundProblem(file, line, problem) for problem, line in document.repeated]
    if not found and value["kind"] == EXPERIMENT_KIND:
        for refused in list_problems(value, DEFAULT_POLICY):
            note = Problem(refused.field, f"{refused.what} (fine if the operator's administrator has allowed it)")
            notes.append(FoundProblem(file, find_line(root, refused.field), note))
        spec = parse_experiment(value, UNKNOWN_POLICY)
        notes += [FoundProblem(file, find_line(root, need.field), need) for need in _list_needs(spec)]
        if spec.search.algorithm in _ENUMERATING:
            found += [FoundProblem(file, find_line(root, each.field), each) for each in _check_enumeration(spec)]
    kind = str(value.get("kind") or "document") if isinstance(value, Mapping) else "document"
    line = find_line(root, "")
    found.sort(key=lambda problem: problem.line)
    return CheckedDocument(file, line, kind, _read_name(value), found, notes)


def _check_enumeration(spec: ExperimentSpec) -> Iterator[Problem]:
    """Whether the algorithm can go through all of the space, which the operator finds by doing it."""
    from podtune.tuning.admission import find_entanglement  # noqa: PLC0415 - it brings the searchers

    if entangled := find_entanglement(spec):
        yield Problem("spec.search.algorithm", entangled)


def _list_needs(spec: ExperimentSpec) -> Iterator[Problem]:
    """What works with some of the operator's images alone."""
    if spec.search.algorithm == "gp":
        yield Problem("spec.search.algorithm", f"gp is for {_GP_IMAGE}; use tpe elsewhere")
    if spec.scheduler.pb2 is not None:
        yield Problem("spec.scheduler.pb2", f"it is for {_GP_IMAGE}; use pbt elsewhere")
    plugins = [("search.plugin", spec.search.plugin), ("scheduler.plugin", spec.scheduler.plugin)]
    plugins += [(f"stop.{path}", plugin) for path, plugin in (*spec.stop.trial_plugins, *spec.stop.experiment_plugins)]
    for path, plugin in plugins:
        if plugin is not None:
            yield Problem(f"spec.{path}", f"{plugin.name!r} has to be installed in the operator's image")


def _read_name(document: object) -> str:
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    if not isinstance(metadata, Mapping):
        return ""
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _count(checked: Sequence[CheckedDocument]) -> int:
    return sum(len(document.problems) for document in checked)


def _print(checked: Sequence[CheckedDocument]) -> None:
    """As compilers do: editors jump to such lines."""
    lines = [_format(problem) for document in checked for problem in document.problems]
    for document in checked:
        for note in document.notes:
            print_note(f"note: {_format(note)}")
        if not document.problems:
            lines.append(f"{document.file}:{document.line}: {document.kind} {document.name} is valid")
    print_lines(lines)
    if count := _count(checked):
        print_note(f"{count} {'problem' if count == 1 else 'problems'}")


def _format(found: FoundProblem) -> str:
    return f"{found.file}:{found.line}: {found.problem}"


def _collect(document: CheckedDocument) -> dict[str, Any]:
    return {
        "file": document.file,
        "line": document.line,
        "kind": document.kind,
        "name": document.name,
        "problems": [_collect_problem(problem) for problem in document.problems],
        "notes": [_collect_problem(note) for note in document.notes],
    }


def _collect_problem(found: FoundProblem) -> dict[str, Any]:
    return {"line": found.line, "field": found.problem.field, "message": found.problem.what}
