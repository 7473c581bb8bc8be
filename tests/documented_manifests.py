"""The manifests of the documentation, made whole: pages show the part of a spec that they are about."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from docs.fenced_blocks import Block, find_blocks, list_pages
from podtune.api.base import ApiModel
from podtune.api.names import API_VERSION
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import TrialSpec

Manifest = dict[str, Any]

_REFERENCE = re.compile(r"\$\(PODTUNE_PARAM_(\w+)\)")
CONTAINER: Manifest = {"name": "trial", "image": "registry.example/train:1"}
SPEC: Manifest = {
    "objective": {"metric": "loss", "mode": "min"},
    "parameters": [{"name": "x", "int": {"min": 1, "max": 3}}],
    "search": {"maxTrials": 1},
    "trialTemplate": {"spec": {"containers": [CONTAINER]}},
}


def list_fields(model: type[ApiModel]) -> set[str]:
    """Names of a model's fields, as manifests have them."""
    return {field.alias or name for name, field in model.model_fields.items()}


FIELDS = list_fields(ExperimentSpec)
FIELDS_OF_TRIALS = list_fields(TrialSpec)


def list_documents() -> Iterator[tuple[Block, Manifest]]:
    """Every YAML document of every page."""
    for page in list_pages():
        for block in find_blocks(page):
            if block.language == "yaml":
                for document in yaml.safe_load_all(block.text):
                    yield block, document


def complete(document: Manifest) -> Manifest | None:
    """The object that a document is, or is a part of; None where it is no object of Kubernetes."""
    if "kind" in document:
        return document
    if "containers" in document:
        return make_experiment({"trialTemplate": {"spec": document}})
    if document.keys() <= FIELDS:
        return make_experiment(document)
    if document.keys() == {"spec"} and document["spec"].keys() <= FIELDS:
        return make_experiment(document["spec"])
    if document.keys() == {"spec"} and document["spec"].keys() <= FIELDS_OF_TRIALS:
        parent = {"experiment": "part", "index": 0, "parameters": {"x": "1"}}
        return _make("Trial", "part-0", parent | document["spec"])
    return None


def make_experiment(part: Manifest) -> Manifest:
    """An Experiment with this part of a spec, and with the parameters that it refers to."""
    named = sorted(set(_REFERENCE.findall(json.dumps(part))))
    parameters = [{"name": name, "int": {"min": 1, "max": 3}} for name in named] or SPEC["parameters"]
    return _make("Experiment", "part", SPEC | {"parameters": parameters} | part)


def _make(kind: str, name: str, spec: Manifest) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
