"""What campaigns leave behind, this one or one that was killed: their namespaces and volumes, and the files of
their pods.

Processes are none of it: they end with the harness.
"""

from __future__ import annotations

from e2e.chaos.api import Api, ApiFailure
from e2e.chaos.pods import volumes
from e2e.chaos.polling import until

LABEL = "podtune-e2e/chaos"
"""Label of all namespaces of campaigns."""
REMOVAL_SECONDS = 120.0


class Stays(Exception):
    """Namespaces are not removed."""


async def remove_leftovers(api: Api) -> None:
    """Removes it all, and returns when it is gone: an operator that saw the experiments would go on with them.

    Raises:
        Stays: The namespaces are still there after two minutes.
    """
    for name in await _namespaces(api):
        # Nobody plays the pods' kubelet any more.
        await api.request("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
        try:
            await api.request("DELETE", f"/api/v1/namespaces/{name}")
        except ApiFailure as failure:
            if failure.status not in (404, 409):  # it is gone, or going
                raise

    for name in await _volumes(api):
        try:
            await api.request("DELETE", f"/api/v1/persistentvolumes/{name}")
        except ApiFailure as failure:
            if failure.status != 404:
                raise

    async def are_gone() -> bool:
        return not await _namespaces(api)

    if not await until(are_gone, REMOVAL_SECONDS, interval=0.5):
        raise Stays(f"still there after {REMOVAL_SECONDS:.0f} s: {', '.join(await _namespaces(api))}")
    volumes.remove_leftovers()


async def _volumes(api: Api) -> list[str]:
    found = await api.request("GET", "/api/v1/persistentvolumes", params={"labelSelector": LABEL})
    return [item["metadata"]["name"] for item in found["items"]]


async def _namespaces(api: Api) -> list[str]:
    found = await api.request("GET", "/api/v1/namespaces", params={"labelSelector": LABEL})
    return [item["metadata"]["name"] for item in found["items"]]
