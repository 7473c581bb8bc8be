"""The trial's parameters, as the kubelet or the agent of a reused pod has put them in place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from podtune.agent.settings import Settings
from podtune.trial import layout

MAX_PARAMETERS_FILE = 1 << 20


def read_trial_parameters(settings: Settings) -> Mapping[str, Any]:
    """The trial's parameters: in the shared directory, or where the kubelet has mounted them beside the token."""
    try:
        text = settings.directory.read_file(layout.PARAMETERS, MAX_PARAMETERS_FILE)
    except OSError:
        text = b""
    if not text.strip():  # the place of a mount that only the program has
        try:
            text = settings.token_file.with_name(layout.PARAMETERS).read_bytes()
        except OSError:
            return {}
    try:
        body = json.loads(text)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
