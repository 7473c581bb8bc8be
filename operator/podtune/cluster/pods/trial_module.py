"""Brings `podtune.trial` to programs whose image does not have it: where a template asks for it, the agent copies it.

A template asks by naming the directory of the copy, as in `PYTHONPATH`. That variable is the template's to set: setting
it here would take away what the image has in it (docs/decisions/0051).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from podtune.api.pods.function_volume import find_function
from podtune.kube.manifests import Manifest
from podtune.protocol import agent_environment as agent_env
from podtune.trial import layout

_SHARED = rf"(?:(?<![\w./-]){layout.DIRECTORY}|\$[({{]?{layout.ENV_DIRECTORY}[)}}]?)"
_COPY = re.compile(rf"{_SHARED}/{layout.SITE_PACKAGES}(?![\w.-])")


def needs_trial_module(template: Mapping[str, Any]) -> bool:
    """Whether a pod's template names the directory of the copy, or runs a function, whatever image it has."""
    containers = [*template["containers"], *(template.get("initContainers") or ())]
    named = any(
        _COPY.search(json.dumps(container.get(field) or []))
        for container in containers
        for field in ("command", "args", "env")
    )
    return named or find_function(template) is not None


def add_copy_hook(agent: Manifest) -> None:
    """Has the kubelet start no other container before the agent's has the copy in place."""
    command = ["podtune-agent", agent_env.COPY_MODULE, layout.DIRECTORY]
    agent["lifecycle"] = {"postStart": {"exec": {"command": command}}}


def has_copy_hook(agent: Manifest) -> bool:
    """Whether an agent's container makes the copy."""
    return "postStart" in agent.get("lifecycle", {})
