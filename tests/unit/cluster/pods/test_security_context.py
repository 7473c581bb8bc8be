"""What the containers of a trial may do, as the template says or as it does not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from podtune.cluster.pods.security_context import confine, make_agent_profile

DEFAULTS = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _confined(spec: dict[str, Any], *, non_root: bool = False) -> dict[str, Any]:
    whole = {"containers": [{"name": "trial", "image": "digits:1"}], **copy.deepcopy(spec)}
    confine(whole, non_root=non_root)
    return whole


def _container(context: dict[str, Any] | None) -> dict[str, Any]:
    spec = _confined({"containers": [{"name": "trial", "image": "digits:1", "securityContext": context}]})
    confined: dict[str, Any] = spec["containers"][0]["securityContext"]
    return confined


def test_a_template_that_says_nothing_gets_little() -> None:
    sidecar = {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}
    spec = _confined({"initContainers": [sidecar]})
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["securityContext"] == DEFAULTS
    assert spec["initContainers"][0]["securityContext"] == DEFAULTS


def test_what_a_template_says_stands() -> None:
    pod = {"runAsUser": 1000, "fsGroup": 1000, "seccompProfile": {"type": "Localhost", "localhostProfile": "mine.json"}}
    own = {"runAsUser": 0, "readOnlyRootFilesystem": True, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = _confined({"securityContext": pod})
    assert spec["securityContext"] == pod
    assert _container(own) == own | DEFAULTS


def test_null_says_nothing() -> None:
    assert _confined({"securityContext": {"seccompProfile": None}})["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"}
    }
    assert _container({"allowPrivilegeEscalation": None, "capabilities": None}) == DEFAULTS
    assert _container({"capabilities": {"drop": None, "add": []}}) == DEFAULTS


@pytest.mark.parametrize(
    ("said", "dropped"),
    [
        (["ALL"], ["ALL"]),
        ([], ["SETGID", "SETUID"]),
        (["NET_RAW"], ["NET_RAW", "SETGID", "SETUID"]),
        (["SETUID", "NET_RAW"], ["SETUID", "NET_RAW", "SETGID"]),
    ],
)
def test_a_template_that_keeps_capabilities_keeps_none_to_become_the_agent(said: list[str], dropped: list[str]) -> None:
    assert _container({"capabilities": {"drop": said}})["capabilities"] == {"drop": dropped}


def test_root_is_refused_where_the_administrator_says_so_and_the_template_says_nothing() -> None:
    assert _confined({}, non_root=True)["securityContext"]["runAsNonRoot"] is True
    said = _confined({"securityContext": {"runAsNonRoot": False}}, non_root=True)
    assert said["securityContext"]["runAsNonRoot"] is False


def test_the_pods_apparmor_profile_is_not_the_agents() -> None:
    own = {"appArmorProfile": {"type": "Localhost", "localhostProfile": "lax"}}
    assert make_agent_profile(own) == {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert make_agent_profile({"seccompProfile": {"type": "RuntimeDefault"}}) == {}, (
        "a kubelet without AppArmor refuses it"
    )
