"""How long a pod is given to end, if the operator is the first to delete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podtune.protocol.messages import Unstored

DEFAULT = 30
"""Seconds where a template names none, as Kubernetes has it."""


def read_from_template(template: Mapping[str, Any]) -> Any:
    """What a pod's template gives its program; checked only where the API server has taken the pod."""
    own = template.get("terminationGracePeriodSeconds")
    return DEFAULT if own is None else own


def choose_for_deletion(own: int, *, program_runs: bool, heard: bool, unstored: Unstored | None) -> int | None:
    """Seconds that a pod is given: its program's part alone, where its agent has nothing left to store.

    A later deletion can't shorten that well, since kubelets have sidecars wait for as long as the first one said. None
    stands for the pod's own grace period, with the time for a last checkpoint: where there is one, where the agent was
    not heard, and where the program has ended already and its agent drains.

    Args:
        own: Seconds of the pod's grace period that are the program's. Where that is none, one is given: a deletion
            with no grace period at all takes the object away while its program runs.
        program_runs: Whether the program has not ended.
        heard: Whether the pod's agent was, which tells what is left to store.
        unstored: What it said last; None where what is left is not waited for.
    """
    if own < 0 or not program_runs or not heard or (unstored is not None and unstored.waits):
        return None
    return max(1, own)
