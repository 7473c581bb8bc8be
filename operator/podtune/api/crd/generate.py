"""The CustomResourceDefinitions of the two resources, generated from the models.

`python -m podtune.api.crd.generate --write` writes them to `crds/` and into the chart that installs them. `--check`
fails with a diff if the committed files don't match the models.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from podtune.api.base import ATOMIC, ApiModel
from podtune.api.crd.cel import Rule
from podtune.api.crd.rules import EXPERIMENT_RULES, TRIAL_RULES
from podtune.api.crd.schema import VALIDATIONS, build_structural_schema
from podtune.api.names import (
    CATEGORY,
    EXPERIMENT_KIND,
    EXPERIMENT_PLURAL,
    GROUP,
    TRIAL_KIND,
    TRIAL_PLURAL,
    VERSION,
)
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus

DIRECTORIES = (Path("crds"), Path("charts/podtune-crds/templates"))
"""Where the files go, below the repository; both hold the same."""
_HEADER = "# Generated from operator/podtune/api by `python -m podtune.api.crd.generate --write`. Do not edit.\n"
# Taking a definition away takes every experiment with it: only a person may, never a tool whose user has moved a file.
# Argo CD is told to apply it on the server, too: it is too large for the annotation that others need.
_KEPT_BY = {
    "helm.sh/resource-policy": "keep",
    "argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; `wide` ones are shown with `-o wide` only."""

    name: str
    path: str
    description: str
    type: str = "string"
    wide: bool = False

    def to_manifest(self) -> dict[str, Any]:
        """The column as an entry of `additionalPrinterColumns`."""
        column: dict[str, Any] = {
            "name": self.name,
            "type": self.type,
            "description": self.description,
            "jsonPath": self.path,
        }
        return column | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its names, its models, and how it is shown."""

    kind: str
    plural: str
    short_name: str
    description: str
    spec: type[ApiModel]
    status: type[ApiModel]
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()
    max_name: int | None = None
    added: frozenset[str] = frozenset()
    """Fields of the spec that have come with a release, as paths below it. The API server fills in no default of them:
    while the definitions are new already, an operator of the release before would find it in every object, and refuse
    a field that it doesn't know. Who reads a spec by the models has the default all the same."""

    @property
    def name(self) -> str:
        """Name of the definition, such as experiments.podtune.dev."""
        return f"{self.plural}.{GROUP}"


_AGE = Column("Age", ".metadata.creationTimestamp", "When it was created.", "date")
# Katib has kinds of the same name and takes the short names one would guess.
RESOURCES = (
    Resource(
        kind=EXPERIMENT_KIND,
        plural=EXPERIMENT_PLURAL,
        short_name="pexp",
        description="An Experiment tunes hyperparameters: it proposes configurations and runs each as a Trial.",
        spec=ExperimentSpec,
        status=ExperimentStatus,
        columns=(
            Column("State", ".status.state", "State of the experiment."),
            Column("Trials", ".status.trials.total", "Trials created so far.", "integer"),
            Column("Running", ".status.trials.running", "Trials that are running.", "integer"),
            Column("Paused", ".status.trials.paused", "Trials that are paused.", "integer"),
            Column("Done", ".status.trials.terminated", "Trials that ended without an error.", "integer"),
            Column("Failed", ".status.trials.error", "Trials that ended in ERROR.", "integer"),
            Column("Best", ".status.best.text", "Best value of the objective."),
            _AGE,
            Column("Best-Value", ".status.best.value", "The best value with all its digits.", wide=True),
            Column("Best-Trial", ".status.best.trial", "Trial with the best value.", wide=True),
            Column("Message", ".status.message", "The state, in a sentence.", wide=True),
        ),
        rules=EXPERIMENT_RULES,
        added=frozenset({".logs", ".results", ".results.keep", ".snapshot"}),
    ),
    Resource(
        kind=TRIAL_KIND,
        plural=TRIAL_PLURAL,
        short_name="ptrial",
        description=(
            "A Trial runs one configuration of an Experiment. The operator or a user creates it; users may pause, stop "
            "or change it."
        ),
        spec=TrialSpec,
        status=TrialStatus,
        columns=(
            Column("State", ".status.state", "State of the trial."),
            Column("Reason", ".status.reason", "Why it is in that state."),
            Column("Attempt", ".status.attempt", "Number of the current or last attempt.", "integer"),
            Column("Failures", ".status.failures", "How often the trial failed by itself.", "integer"),
            Column("Best", ".status.bestText", "Best value of the objective."),
            _AGE,
            Column("Best-Value", ".status.bestValue", "The best value with all its digits.", wide=True),
            Column("Name", ".spec.displayName", "Name for people.", wide=True),
            Column("Node", ".status.pod.node", "Node of the current or last attempt.", wide=True),
            Column("Message", ".status.message", "The state, in a sentence.", wide=True),
        ),
        rules=TRIAL_RULES,
        max_name=63,
        added=frozenset({".proposal.position"}),
    ),
)


def build_definition(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    definition: dict[str, Any] = json.loads(_encode_definition(resource))
    return definition


@cache
def _encode_definition(resource: Resource) -> str:
    """It as JSON: to make it of the models takes a fifth of a second, to read it again next to nothing."""
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": resource.name,
            "annotations": dict(_KEPT_BY),
            "labels": {"app.kubernetes.io/name": "podtune", "app.kubernetes.io/component": "crds"},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
                "shortNames": [resource.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.to_manifest() for column in resource.columns],
                    "schema": {"openAPIV3Schema": _build_root_schema(resource)},
                }
            ],
        },
    }
    return json.dumps(definition)


def _build_root_schema(resource: Resource) -> dict[str, Any]:
    # -1 until the operator has seen it: then `kubectl wait`, Flux and Argo CD don't take an old status for a new one.
    # One writer owns the whole status. Atomic, it is one entry among the managed fields instead of one a field, which
    # makes a Trial a third smaller and a status write two fifths cheaper for the API server.
    owned = {"default": {"observedGeneration": -1}, **ATOMIC}
    # The operator leaves out of a status what is as by default, and whoever reads it by the models has it all the same.
    # Filled in by the API server, a Trial had a third more fields to check, store and send at each write. What columns
    # show is filled in, for a 0 is better than a blank.
    shown = _list_shown(resource)
    status = _strip_defaults(build_structural_schema(resource.status), lambda path: not _is_shown(path, shown)) | owned
    spec = _strip_defaults(build_structural_schema(resource.spec), lambda path: path in resource.added)
    schema: dict[str, Any] = {
        "description": resource.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"} | _bound_name(resource.max_name),
            "spec": spec,
            "status": status,
        },
    }
    if resource.rules:
        schema[VALIDATIONS] = [rule.to_schema() for rule in resource.rules]
    return schema


def _list_shown(resource: Resource) -> set[str]:
    """The fields of a status that columns show, as paths below it."""
    return {column.path.removeprefix(".status") for column in resource.columns if column.path.startswith(".status.")}


def _is_shown(path: str, shown: Collection[str]) -> bool:
    """Whether a column shows a field, or one below it."""
    return any(f"{field}.".startswith(f"{path}.") for field in shown)


def _strip_defaults(schema: dict[str, Any], is_stripped: Callable[[str], bool], path: str = "") -> dict[str, Any]:
    """Takes defaults out of a schema.

    Args:
        schema: Where they are.
        is_stripped: Whether the field at a path loses its own.
        path: That of the schema, such as `.results.keep`.
    """
    children = {
        name: _strip_defaults(child, is_stripped, f"{path}.{name}")
        for name, child in schema.get("properties", {}).items()
    }
    kept = {key: value for key, value in schema.items() if key != "default" or not is_stripped(path)}
    if children:
        kept["properties"] = children
    if "items" in schema:
        kept["items"] = _strip_defaults(schema["items"], is_stripped, f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        kept["additionalProperties"] = _strip_defaults(schema["additionalProperties"], is_stripped, f"{path}{{}}")
    return kept


def _bound_name(length: int | None) -> dict[str, Any]:
    """How long a name may be: without a bound, the API server takes a rule about it for too expensive."""
    if length is None:
        return {}
    name = {"type": "string", "maxLength": length}
    return {"properties": {"name": name, "generateName": dict(name)}}


def build_files() -> Mapping[Path, str]:
    """The content of each generated file, by its path below the repository."""
    texts = {f"{resource.name}.yaml": _HEADER + _dump(build_definition(resource)) for resource in RESOURCES}
    return {directory / name: text for directory in DIRECTORIES for name, text in texts.items()}


class _Dumper(yaml.SafeDumper):
    """Writes every list in full: an anchor (&id001) is legal YAML, but nobody wants to read one."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class says what is passed
        return True


def _dump(document: dict[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def write(root: Path) -> None:
    """Writes the files below a repository."""
    for path, text in build_files().items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def find_drift(root: Path) -> str:
    """What is committed against what the models say, as a diff; empty when they agree."""
    lines: list[str] = []
    for path, text in build_files().items():
        target = root / path
        committed = target.read_text(encoding="utf-8") if target.exists() else ""
        lines += difflib.unified_diff(
            committed.splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"{path} (committed)",
            f"{path} (models)",
        )
    return "".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the generated files; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m podtune.api.crd.generate", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[4], help="the repository")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write the files")
    action.add_argument("--check", action="store_true", help="fail when a file is not what the models say")
    options = parser.parse_args(arguments)
    if options.write:
        write(options.root)
        return 0
    difference = find_drift(options.root)
    if difference:
        sys.stderr.write(difference)
        sys.stderr.write(
            "The definitions are not what the models say; run: python -m podtune.api.crd.generate --write\n"
        )
    return 1 if difference else 0


if __name__ == "__main__":
    raise SystemExit(main())
