"""Which namespaces and Experiments a viewer may see.

They see what kubectl would list for them: Experiments and Trials of a namespace. Who may get a single Experiment alone,
and list the Trials beside it, sees its pages, but no list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from podtune.api.names import EXPERIMENT_PLURAL, TRIAL_PLURAL
from podtune.dashboard.access.reviews import Reviewer, Right
from podtune.dashboard.access.viewer import Viewer


async def find_namespaces(reviewer: Reviewer, viewer: Viewer, candidates: Collection[str]) -> frozenset[str] | None:
    """Those of some namespaces that a viewer may see; None where they may see all there are."""
    if await _may_list(reviewer, viewer, ""):
        return None
    names = sorted(set(candidates))
    seen = await asyncio.gather(*(_may_list(reviewer, viewer, name) for name in names))
    return frozenset(name for name, is_seen in zip(names, seen, strict=True) if is_seen)


async def may_see(reviewer: Reviewer, viewer: Viewer, namespace: str, experiment: str) -> bool:
    """Whether a viewer may see an Experiment, be it there or not."""
    if await _may_list(reviewer, viewer, namespace):
        return True
    rights = Right("get", EXPERIMENT_PLURAL, namespace, experiment), Right("list", TRIAL_PLURAL, namespace)
    return all(await asyncio.gather(*(reviewer.allows(viewer, right) for right in rights)))


async def _may_list(reviewer: Reviewer, viewer: Viewer, namespace: str) -> bool:
    rights = Right("list", EXPERIMENT_PLURAL, namespace), Right("list", TRIAL_PLURAL, namespace)
    return all(await asyncio.gather(*(reviewer.allows(viewer, right) for right in rights)))
