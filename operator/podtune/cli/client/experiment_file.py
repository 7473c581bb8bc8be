"""Reads the manifest of an Experiment where there is no API server to do so."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from podtune.api.base import Problem
from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.validation import NO_FUNCTIONS, find_problems, parse_experiment
from podtune.cli.client.source_lines import find_repeated_fields
from podtune.cli.errors import CliError

STANDARD_INPUT = Path("-")
_HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document as somebody wrote it.

    Attributes:
        value: What it says; None where it is empty.
        node: Where it says what, for `find_line`.
        repeated: Fields that a map has twice, each with its line.
    """

    value: Any
    node: yaml.Node
    repeated: Sequence[tuple[Problem, int]]


@dataclass(frozen=True, slots=True)
class ExperimentFile:
    """An Experiment as a user wrote it.

    Attributes:
        name: Its name.
        spec: What it asks for; None where that can't be read.
        problems: What is wrong with it, a sentence each; empty where nothing is.
    """

    name: str
    spec: ExperimentSpec | None
    problems: tuple[str, ...] = ()


class ManifestError(CliError):
    """The manifest asks for something that can never work."""


def read_experiment_file(path: Path) -> ExperimentFile:
    """Reads the one Experiment of a file, which may hold other resources too; `-` is standard input.

    Raises:
        CliError: The file can't be read, or holds no Experiment, or several.
    """
    name, resource = _find_resource(path, read_documents(path))
    problems = find_problems(resource, UNKNOWN_POLICY)
    return ExperimentFile(name, None if problems else parse_experiment(resource, UNKNOWN_POLICY), tuple(problems))


def read_resource(path: Path) -> tuple[str, Mapping[str, Any]]:
    """Reads the name of an Experiment that can be worked with, and all of it as it is written.

    Raises:
        CliError: There is none in the file.
        ManifestError: It can never work.
    """
    name, resource, _ = read_with_config_maps(path)
    return name, resource


def read_with_config_maps(path: Path) -> tuple[str, Mapping[str, Any], Mapping[str, Mapping[str, Any]]]:
    """Reads the same, and the ConfigMaps that are in the file, by name; raises as `read_resource`."""
    from podtune.tuning.admission import find_problem  # noqa: PLC0415 - other commands do without all searchers

    documents = read_documents(path)
    name, resource = _find_resource(path, documents)
    problems = find_problems(resource, UNKNOWN_POLICY) or [
        problem for problem in [find_problem(parse_experiment(resource, UNKNOWN_POLICY))] if problem
    ]
    if problems:
        raise _refuse(path, problems)
    return name, resource, dict(_find_config_maps(documents))


def _find_config_maps(documents: Sequence[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for document in documents:
        match document:
            case {"kind": "ConfigMap", "metadata": {"name": str(name)}}:
                yield name, document


def _find_resource(path: Path, documents: Sequence[Any]) -> tuple[str, Mapping[str, Any]]:
    """The name and the body of the one Experiment of a file."""
    experiments = [document for document in documents if _is_experiment(document)]
    if len(experiments) != 1:
        found = f"{len(experiments)} of them" if experiments else "none"
        raise CliError(f"{path}: the file must contain exactly one {EXPERIMENT_KIND} ({API_VERSION}); it has {found}")
    resource = experiments[0]
    if not isinstance(resource.get("metadata", {}), Mapping):
        raise CliError(f"{path}: metadata must be a map; write name: … below it")
    return str(resource.get("metadata", {}).get("name", "")) or path.stem, resource


def read_spec(path: Path) -> tuple[str, ExperimentSpec]:
    """Reads the name and the spec of an Experiment that can be worked with.

    Raises:
        CliError: There is none in the file.
        ManifestError: It can never work.
    """
    manifest = read_experiment_file(path)
    if manifest.spec is None:
        raise _refuse(path, manifest.problems)
    return manifest.name, manifest.spec


def _refuse(path: Path, problems: Sequence[str]) -> ManifestError:
    more = f" (and {len(problems) - 1} more; `podtune plan` names all)" if problems[1:] else ""
    return ManifestError(f"{path}: {problems[0]}{more}")


def _read_text(path: Path) -> str:
    """Reads a file; `-` is standard input."""
    try:
        return sys.stdin.read() if path == STANDARD_INPUT else path.read_text(encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path}: {error.strerror or error}; name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: it is not UTF-8: {error}") from error


class _KubectlConstructor(yaml.constructor.SafeConstructor):
    """Reads scalars as kubectl does.

    Characters are put together that JSON may write as two halves: surrogates, which are no text by themselves. 1e-4 is
    a number, though YAML 1.1 wants a dot in it, and what looks like a date or a time of day is a text.
    """

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and _HALVES.search(value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        return value


class _Loader(_KubectlConstructor, yaml.SafeLoader):
    """Reads what people write."""


class _FastLoader(_KubectlConstructor, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads what programs have written, many times as fast; it refuses a character that JSON wrote as two halves."""


_OTHERWISE = ("tag:yaml.org,2002:float", "tag:yaml.org,2002:int", "tag:yaml.org,2002:timestamp")
_RESOLVERS = {
    first: [(tag, form) for tag, form in resolvers if tag not in _OTHERWISE]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_INTEGER = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
for _each in (_Loader, _FastLoader):
    _each.yaml_implicit_resolvers = {first: list(resolvers) for first, resolvers in _RESOLVERS.items()}
    _each.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(f"(?:{_INTEGER.pattern})$"), list("-+0123456789"))
    _each.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"(?:{_FLOAT.pattern})$"), list("-+.0123456789"))


class _Dumper(yaml.SafeDumper):
    """Writes what the loaders read back the same: texts that only they take for numbers, such as 1e-05, in quotes."""


_Dumper.yaml_implicit_resolvers = {
    first: [*yaml.SafeDumper.yaml_implicit_resolvers.get(first, ()), *_Loader.yaml_implicit_resolvers.get(first, ())]
    for first in {**yaml.SafeDumper.yaml_implicit_resolvers, **_Loader.yaml_implicit_resolvers}
}


def write_document(body: Mapping[str, Any]) -> str:
    """Writes a document that `read_documents` reads as the same one."""
    return yaml.dump(dict(body), Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _refuse_python(_loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> None:
    """Says what to write instead of a function, which is what people use these tags for."""
    raise yaml.constructor.ConstructorError(None, None, f"!!python/{suffix}: {NO_FUNCTIONS}", node.start_mark)


_KubectlConstructor.add_multi_constructor("tag:yaml.org,2002:python/", _refuse_python)


def read_documents(path: Path, *, by_program: bool = False, text: str | None = None) -> list[Any]:
    """Reads the documents in a file of YAML, or JSON; `-` is standard input.

    Args:
        path: The file.
        by_program: Whether a program has written it: it may be large then.
        text: What is in it, where it need not be read any more.

    Raises:
        CliError: It can't be read, or is neither.
    """
    text = _read_text(path) if text is None else text
    if by_program:
        with suppress(yaml.YAMLError, ValueError):  # the other loader reads it all the same, or says what is wrong
            return list(yaml.load_all(text, _FastLoader))
    try:
        return list(yaml.load_all(text, _Loader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # what looks like a date need not be one
        raise _explain_no_yaml(path, error) from error


def read_source_documents(path: Path) -> list[SourceDocument]:
    """Reads the documents in a file, and where each of them says what; raises as `read_documents`."""
    loader = _Loader(_read_text(path))
    documents: list[SourceDocument] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None  # as it was just checked
            repeated = list(find_repeated_fields(node))  # first, as construction merges maps into nodes
            documents.append(SourceDocument(loader.construct_document(node), node, repeated))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _explain_no_yaml(path, error) from error
    finally:
        loader.dispose()
    return documents


def _explain_no_yaml(path: Path, error: Exception) -> CliError:
    return CliError(f"{path}: not valid YAML: {' '.join(str(error).split())}")


def _is_experiment(document: Any) -> bool:
    named = isinstance(document, Mapping) and document.get("kind") == EXPERIMENT_KIND
    return named and document.get("apiVersion") == API_VERSION
