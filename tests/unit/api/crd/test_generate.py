from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import Field

from podtune.api.base import ApiModel
from podtune.api.crd.generate import RESOURCES, build_definition, build_files, find_drift, main, write
from podtune.api.crd.schema import build_structural_schema
from podtune.api.crd.schema_types import find_wrong_types
from podtune.api.resources.experiment import ExperimentSpec

REPOSITORY = Path(__file__).parents[4]
FORBIDDEN = {"$ref", "$defs", "anyOf", "oneOf", "const", "title", "examples", "patternProperties", "propertyNames"}


def _nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            yield from _nodes(schema[keyword], f"{path}.{keyword}")


def _all_nodes() -> list[tuple[str, dict[str, Any]]]:
    nodes = []
    for resource in RESOURCES:
        root = build_definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            nodes += list(_nodes(root["properties"][part], f"{resource.kind}.{part}"))
    return nodes


def test_what_is_committed_is_what_the_models_say() -> None:
    assert find_drift(REPOSITORY) == ""


def test_a_drifted_file_is_shown_as_a_diff_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert main(["--root", str(tmp_path), "--check"]) == 0
    path = tmp_path / "crds" / "trials.podtune.dev.yaml"
    path.write_text(path.read_text().replace("maxLength: 1024", "maxLength: 1025", 1))
    assert main(["--root", str(tmp_path), "--check"]) == 1
    said = capsys.readouterr().err
    assert [line.replace(" ", "") for line in said.splitlines() if "1025" in line] == ["-maxLength:1025"]
    assert "python -m podtune.api.crd.generate --write" in said


def test_a_missing_file_is_drift(tmp_path: Path) -> None:
    assert "experiments.podtune.dev.yaml" in find_drift(tmp_path)


def test_the_chart_installs_what_crds_holds() -> None:
    texts = build_files()
    for path, text in texts.items():
        assert texts[Path("crds") / path.name] == text
        # Helm would read these as its own.
        assert "{{" not in text
        annotations = yaml.safe_load(text)["metadata"]["annotations"]
        assert annotations["helm.sh/resource-policy"] == "keep"
        assert {"Prune=false", "Delete=false"} <= set(annotations["argocd.argoproj.io/sync-options"].split(","))
        assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


@pytest.mark.parametrize(("path", "node"), _all_nodes(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_field_is_structural_described_and_bounded(path: str, node: dict[str, Any]) -> None:
    assert not FORBIDDEN & node.keys()
    if not path.endswith((".items", ".additionalProperties")):
        assert node.get("description", "").endswith((".", ")", "…")) or ":" in node.get("description", "")
    match node.get("type"):
        case "string":
            assert "maxLength" in node or "enum" in node
        case "array":
            assert "maxItems" in node
        case "object" if "additionalProperties" in node:
            assert "maxProperties" in node
        case None:
            anything = node.get("x-kubernetes-preserve-unknown-fields")
            bounded = "x-kubernetes-validations" in node or "maxLength" in node
            assert anything or (node["x-kubernetes-int-or-string"] and bounded)


_TEXT = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_OWN_FIELD = re.compile(r"\b(?:self|oldSelf)\.([A-Za-z]+)\b(?!\()")


def _is_seen_by_cel(node: dict[str, Any]) -> bool:
    """Whether CEL has a type for a field; one that may hold anything has none."""
    if "x-kubernetes-int-or-string" in node:
        return True
    return "type" in node and ("additionalProperties" not in node or _is_seen_by_cel(node["additionalProperties"]))


@pytest.mark.parametrize(("path", "node"), _all_nodes(), ids=lambda value: value if isinstance(value, str) else "")
def test_rules_are_made_of_whole_texts_and_fields_that_cel_sees(path: str, node: dict[str, Any]) -> None:
    """The API server refuses the whole definition otherwise."""
    for rule in node.get("x-kubernetes-validations", ()):
        for expression in filter(None, (rule["rule"], rule.get("messageExpression"))):
            without_texts = _TEXT.sub("", expression)
            assert not {"'", '"'} & set(without_texts), f"{path}: a text of {expression} does not end"
            for name in _OWN_FIELD.findall(without_texts) if "properties" in node else ():
                assert name in node["properties"], f"{path}: {expression} names a field that there is not"
                assert _is_seen_by_cel(node["properties"][name]), f"{path}: CEL has no type for {name}"


def test_defaults_of_models_within_models_are_filled_in_by_the_server() -> None:
    properties = build_structural_schema(ExperimentSpec)["properties"]
    assert properties["failures"]["default"] == {}
    assert properties["failures"]["properties"]["maxFailures"]["default"] == 3
    assert properties["scheduler"]["default"] == {"fifo": {}}
    # Nothing below it has a default: it stays out of the stored object.
    assert "default" not in properties["stop"]


def test_of_a_status_only_what_columns_show_has_defaults() -> None:
    def find_defaults(schema: dict[str, Any], path: str) -> Iterator[str]:
        if path and "default" in schema:
            yield path
        for name, child in schema.get("properties", {}).items():
            yield from find_defaults(child, f"{path}.{name}")
        for below in ("items", "additionalProperties"):
            if isinstance(schema.get(below), dict):
                yield from find_defaults(schema[below], f"{path}.{below}")

    found = {}
    counted = ("total", "running", "paused", "terminated", "error")
    for resource in RESOURCES:
        schema = build_definition(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        found[resource.kind] = set(find_defaults(schema["properties"]["status"], ""))
    assert found == {
        "Experiment": {".trials", *(f".trials.{name}" for name in counted)},
        "Trial": {".attempt", ".failures"},
    }


class _Inner(ApiModel):
    """Something."""

    count: int = Field(gt=0, description="How many.")


class _Outer(ApiModel):
    """Something around it."""

    inner: _Inner | None = Field(default=None, description="The inner thing.")
    kind: Literal["only"] = Field(description="One choice.")


def test_an_entry_of_a_list_can_be_null_where_the_model_takes_none() -> None:
    class Measured(ApiModel):
        values: list[float | None] = Field(max_length=3, description="Values.")
        steps: list[int] = Field(max_length=3, description="Steps.")

    properties = build_structural_schema(Measured)["properties"]
    assert properties["values"]["items"] == {"type": "number", "format": "double", "nullable": True}
    assert properties["steps"]["items"] == {"type": "integer", "format": "int64"}
    written = {"values": [0.5, None], "steps": [1, None]}
    wrong = find_wrong_types(written, build_structural_schema(Measured))
    assert [path for path, _, _ in wrong] == [("steps", 1)]


def test_an_optional_field_is_one_that_may_be_absent() -> None:
    schema = build_structural_schema(_Outer)
    assert schema["required"] == ["kind"]
    assert schema["properties"]["kind"] == {"description": "One choice.", "type": "string", "enum": ["only"]}
    inner = schema["properties"]["inner"]
    assert inner["description"] == "The inner thing."
    assert inner["properties"]["count"] == {
        "description": "How many.",
        "type": "integer",
        "exclusiveMinimum": True,
        "format": "int64",
        "minimum": 0,
    }


class _Unsayable(ApiModel):
    """A union of two maps."""

    either: _Inner | _Outer = Field(description="One or the other.")


class _Multiple(ApiModel):
    """A keyword that is not known."""

    even: int = Field(multiple_of=2, description="An even number.")


@pytest.mark.parametrize("model", [_Unsayable, _Multiple])
def test_what_a_structural_schema_cant_say_is_an_error(model: type[ApiModel]) -> None:
    with pytest.raises(TypeError, match="a structural schema can't say"):
        build_structural_schema(model)
