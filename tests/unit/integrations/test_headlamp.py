"""The plugin for Headlamp reads fields that there are, names what there is, and is of this version.

`make headlamp` has TypeScript's own tools look at it: a download.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.fenced_blocks import ROOT
from integrations.headlamp import build
from podtune import __version__
from podtune.api import names
from tests.gitops.typescript_types import TypeOfField, read_interfaces

FOLDER = ROOT / "integrations" / "headlamp"
API = (FOLDER / "src" / "api.ts").read_text(encoding="utf-8")
INTERFACES = read_interfaces(API)
PACKAGE: dict[str, Any] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
LOCK: dict[str, Any] = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))
TYPES = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean"}


def list_objections(read: TypeOfField, schema: dict[str, Any], path: str) -> list[str]:
    """Where a type of the plugin says something else than the definition."""
    if read.fields:
        defined = schema.get("properties", {})
        return [
            objection
            for name, of_field in read.fields.items()
            for objection in (
                list_objections(of_field, defined[name], f"{path}.{name}")
                if name in defined
                else [f"{path}.{name} is not defined"]
            )
        ]
    if read.items is not None:
        items = schema.get("items", schema.get("additionalProperties"))
        return list_objections(read.items, items, f"{path}[]") if items else [f"{path} holds no items"]
    if read.literals:
        return [] if read.literals == set(schema.get("enum", ())) else [f"{path} is one of {schema.get('enum')}"]
    if read.names == {"unknown"}:
        return []
    expected = {"number", "string"} if schema.get("x-kubernetes-int-or-string") else {TYPES.get(schema["type"])}
    return [] if read.names == expected else [f"{path} is of type {expected}"]


@pytest.mark.parametrize("kind", [names.EXPERIMENT_KIND, names.TRIAL_KIND])
def test_the_fields_that_it_reads_are_defined(kind: str) -> None:
    plural = f"{kind.lower()}s"
    definition = yaml.safe_load((ROOT / "crds" / f"{plural}.{names.GROUP}.yaml").read_text(encoding="utf-8"))
    (version,) = definition["spec"]["versions"]
    read = INTERFACES[f"{kind}Manifest"].fields
    assert len(read["spec"].fields) > 3
    assert len(read["status"].fields) > 5
    for part in ("spec", "status"):
        schema = version["schema"]["openAPIV3Schema"]["properties"][part]
        assert list_objections(read[part], schema, f"{kind}.{part}") == []


def test_an_objection_names_the_field() -> None:
    schema = {"properties": {"state": {"type": "string", "enum": ["A"]}, "count": {"type": "string"}}}
    read = read_interfaces("export interface It { state: 'A' | 'B'; count?: number; other: { x: string }[]; }")["It"]
    assert list_objections(read, schema, "it") == [
        "it.state is one of ['A']",
        "it.count is of type {'string'}",
        "it.other is not defined",
    ]


def test_it_names_the_group_the_labels_and_reasons_that_there_are() -> None:
    constants = dict(re.findall(r"^export const (\w+) = ['`](.+?)['`];", API, re.MULTILINE))
    written = {name: value.replace("${GROUP}", constants["GROUP"]) for name, value in constants.items()}
    assert written == {name: getattr(names, name) for name in ("GROUP", "VERSION", "LABEL_EXPERIMENT", "LABEL_TRIAL")}
    (reasons,) = re.findall(r"REASONS_WITH_POD = \[(.+?)\]", API, re.DOTALL)
    assert set(re.findall(r"'(\w+)'", reasons)) <= {reason.value for reason in names.TrialReason}


def test_it_is_of_this_version() -> None:
    assert (PACKAGE["version"], LOCK["version"], LOCK["packages"][""]["version"]) == (__version__,) * 3


def test_what_it_is_built_with_is_pinned_by_hashes_and_comes_from_no_one_server() -> None:
    packages = {path: package for path, package in LOCK["packages"].items() if path}
    assert [path for path, package in packages.items() if "resolved" in package] == []
    assert [
        path for path, package in packages.items() if "integrity" not in package and "inBundle" not in package
    ] == []
    for name, version in PACKAGE["devDependencies"].items():
        assert packages[f"node_modules/{name}"]["version"] == version, "name one version"


def test_equal_files_make_equal_archives_with_the_folder_that_headlamp_looks_for(tmp_path: Path) -> None:
    package = build.read_package(FOLDER)
    files = {"main.js": b"1", "package.json": package}
    archive = build.write_plugin(files, tmp_path)
    assert archive.name == f"podtune-headlamp-{__version__}.tar.gz"
    assert archive.read_bytes() == build.pack(dict(reversed(files.items())))
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as opened:
        assert opened.getnames() == ["podtune/main.js", "podtune/package.json"]
    assert json.loads(package).keys() >= {"name", "version", "description", "license"}


@pytest.mark.parametrize(("found", "objection"), [(None, "install it"), ("v18.20.1", "is v18.20.1"), ("v20.1.0", None)])
def test_a_machine_without_a_new_enough_node_is_told(
    found: str | None, objection: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("node", "npm") if found else ():
        path = tmp_path / program
        path.write_text(f"#!/bin/sh\necho {found}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if found else str(tmp_path))
    if objection is None:
        build.check_node()
    else:
        with pytest.raises(build.BuildError, match=objection):
            build.check_node()
