"""What of a pod's manifest becomes a process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podtune.local.program import build_program, expand, inherit

ENVIRON = {"PATH": "/bin", "PODTUNE_TRIAL": "another", "API_KEY": "secret"}


def _build(env: list[dict[str, Any]], command: list[str], args: list[str] | None = None) -> Any:
    container = {"name": "trial", "command": command, "args": args or [], "env": env}
    metadata = {"name": "a-0-1", "namespace": "local", "uid": "u-1", "labels": {"team": "x"}, "annotations": {}}
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "other"}, container]}}
    return build_program(pod, Path("/runs/a"), "laptop", ENVIRON)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("--lr=$(LR)", "--lr=0.1"),
        ("$(LR)$(LR)", "0.10.1"),
        ("$$(LR)", "$(LR)"),
        ("$(NOT_KNOWN)", "$(NOT_KNOWN)"),
        ("costs $$5 or $5", "costs $5 or $5"),
        ("$(", "$("),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, expanded: str) -> None:
    assert expand(text, {"LR": "0.1"}) == expanded


def test_variables_refer_to_those_before_them() -> None:
    env = [{"name": "LR", "value": "0.1"}, {"name": "ARGS", "value": "--lr=$(LR) $(LATER)"}, {"name": "LATER"}]
    program = _build(env, ["train", "$(ARGS)"], ["$(LR)"])
    assert (*program.command, *program.arguments) == ("train", "--lr=0.1 $(LATER)", "0.1")
    assert program.variables["LATER"] == ""


def test_a_program_inherits_the_callers_environment_but_for_our_variables() -> None:
    program = _build([{"name": "PODTUNE_DIR", "value": "/podtune"}], ["ls", "$(PODTUNE_DIR)/x"])
    inherited = inherit(ENVIRON) | program.variables
    assert inherited == {"PATH": "/bin", "API_KEY": "secret", "PODTUNE_DIR": "/runs/a"}
    assert program.command == ("ls", "/runs/a/x")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("metadata.name", "a-0-1"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['team']", "x"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "laptop"),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.0.0.1"),
    ],
)
def test_fields_of_the_pod_are_computed(field: str, value: str) -> None:
    env = [{"name": "FIELD", "valueFrom": {"fieldRef": {"fieldPath": field}}}]
    assert _build(env, ["train"]).variables["FIELD"] == value


def test_what_is_in_a_secret_comes_from_the_callers_environment() -> None:
    references = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "keys", "key": name, "optional": True}}}
        for name in ("API_KEY", "MISSING")
    ]
    program = _build(references, ["train", "$(API_KEY)"])
    assert program.command == ("train", "secret")
    assert "MISSING" not in program.variables
