"""A pod of a gang whose rank is above 0: its program goes along with that of rank 0, and its agent says nothing."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from e2e.chaos.api import MERGE, Api, ApiFailure, Object
from e2e.chaos.ground_truth import AttemptTruth
from e2e.chaos.pods.pod_status import AGENT, ended, now, running
from e2e.chaos.pods.training_pod import ExperimentScript
from e2e.chaos.polling import until
from podtune.api.names import LABEL_ATTEMPT, LABEL_RANK, LABEL_TRIAL
from podtune.protocol import agent_environment as agent_env
from podtune.runner.records import ContainerEnd
from podtune.simulation.faults import COMPLETED, DISRUPTIONS, KILLED, Fault, find_for_attempt


class RankPod:
    """One from its being bound to its end."""

    def __init__(self, api: Api, body: Object, script: ExperimentScript) -> None:
        self._api = api
        self._truth = script.truth
        metadata, labels = body["metadata"], body["metadata"]["labels"]
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{self.name}"
        self._leader_uid = _read_leader(body)
        self._started = now()
        self._deleted = asyncio.Event()
        index = int(labels[LABEL_TRIAL].rpartition("-")[2])
        fault = find_for_attempt(script.scenario.faults, index, int(labels[LABEL_ATTEMPT]))
        self._fault = fault if fault is not None and fault.rank == int(labels[LABEL_RANK]) else None

    def delete(self, grace: float = 0.0) -> None:
        """Somebody has asked for its deletion, or it is gone; it ends at once, however long it is given."""
        self._deleted.set()

    async def run(self) -> None:
        """Lives."""
        try:
            await self._live()
        except ApiFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:  # it was removed by force
                raise

    async def _live(self) -> None:
        await self._status(running(self._started))
        await until(lambda: self._deleted.is_set() or self._falls or self._has_trained, interval=0.02)
        end = COMPLETED
        if self._deleted.is_set():
            end = KILLED
        elif self._falls:
            end = await self._fall()
        await self._status(ended(self._started, end, "", now()))
        await self._deleted.wait()
        await self._api.request("DELETE", self._path, {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})

    @property
    def _leader(self) -> AttemptTruth | None:
        return next((attempt for attempt in self._truth.attempts if attempt.uid == self._leader_uid), None)

    @property
    def _has_trained(self) -> bool:
        """Whether rank 0 has done all that there was to do."""
        return self._leader is not None and self._leader.ended == f"exit code {COMPLETED.exit_code}"

    @property
    def _falls(self) -> bool:
        return self._fault is not None and self._leader is not None and self._leader.is_held

    async def _fall(self) -> ContainerEnd:
        """What its scenario has for it."""
        assert self._fault is not None  # the caller has looked
        if self._fault.kind is Fault.EVICTED:
            reason, _, message = DISRUPTIONS[Fault.EVICTED].partition(": ")
            condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
            await self._status({"conditions": [{**condition, "lastTransitionTime": now()}]})
            await self._api.request("DELETE", self._path)
            await self._deleted.wait()
        return self._fault.end

    async def _status(self, status: Object) -> None:
        await self._api.request("PATCH", f"{self._path}/status", {"status": status}, content_type=MERGE)


def _read_leader(body: Object) -> str:
    """The UID of the pod of rank 0, as the agent is told of it."""
    agent = next(c for c in body["spec"]["initContainers"] if c["name"] == AGENT)
    found: str = next(e["value"] for e in agent["env"] if e["name"] == agent_env.ATTEMPT)
    return found
