"""The requests for pods: of trials, of gangs, and storage pods."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial

from podtune.api.names import (
    ANNOTATION_MADE_FOR,
    ANNOTATION_OWN_LIMITS,
    FIELD_MANAGER,
    GANG_GATE,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    LABEL_REVISION,
    LABEL_TRIAL,
    MANAGED_BY,
    ExperimentReason,
)
from podtune.cluster import decoders
from podtune.cluster.client import STRATEGIC_MERGE, ClusterClient, create_owned, delete_exactly
from podtune.cluster.observer import Observer
from podtune.cluster.pods.gang import belongs_to, make_gang_service, make_rank
from podtune.cluster.pods.manifest import AgentSettings, make_pod
from podtune.cluster.pods.restricted_namespaces import RestrictedNamespaces
from podtune.cluster.pods.scratch_claim import ensure_claim
from podtune.cluster.pods.storage_pod import make_storage_pod, make_trial_chunks
from podtune.cluster.pods.store_claim import StoreClaims, find_store_claim
from podtune.kube import paths
from podtune.kube.agent_pods import share_node
from podtune.kube.errors import ApiRefusal, ResourceConflict, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.protocol.storage_job import encode_chunks
from podtune.runner.actions import (
    DONE,
    ActionResult,
    ActionStatus,
    CreatePod,
    CreateStoragePod,
    DeleteFinishedPods,
    DeletePod,
    OpenGates,
    TryPod,
)
from podtune.runner.records import Experiment
from podtune.runner.resources import write_own_limits

_PATIENCE = 5.0
"""Seconds that the answer to the first of several pods is waited for at most, and that its refusal stands."""
ENDED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
"""Field selector for pods that have stopped running."""
_REFUSALS = frozenset({400, 403, 413, 422})
"""Statuses by which the API server, or an admission webhook, says that it will never take this pod."""


class PodRequests:
    """Creates and deletes pods."""

    def __init__(self, client: ClusterClient, observer: Observer, agent: AgentSettings) -> None:
        self._client = client
        self._observer = observer
        self._agent = agent
        self._first_answers = FirstAnswers()
        self._claims = StoreClaims(client, time.monotonic)
        self._restricted = RestrictedNamespaces(time.monotonic)

    async def create(self, experiment: Experiment, action: CreatePod) -> ActionResult:
        """Creates the pod of an attempt, or all pods of a gang."""
        assert experiment.spec is not None  # there are no trials without
        if action.revision != experiment.spec.template_revision:
            words = "the trial template has changed since the pod was asked for"
            return ActionResult(ActionStatus.FAILED, words, ExperimentReason.TEMPLATE_CHANGED)
        template = (action.revision, str(action.evaluates), *sorted(action.limits.items()))
        return await self._first_answers.ask(experiment.uid, template, lambda: self._create(experiment, action))

    async def try_out(self, experiment: Experiment, action: TryPod) -> ActionResult:
        """Asks by a dry run, which passes everything that a pod has to pass but the database.

        Whatever is not said of the pod itself (it is there already, quota is used up, an admission webhook knows no dry
        runs) is no refusal: the request that makes it comes next, and is answered for good.
        """
        for body in self._make_pods_of_roles(experiment, action.creation).values():
            try:
                await self._restricted.send(experiment.namespace, body, partial(self._ask, experiment.namespace))
            except ApiRefusal as refusal:
                if refusal.is_transient:
                    raise
                if _is_final(refusal) and not refusal.is_about_dry_runs:
                    return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.POD_REFUSED)
        self._first_answers.forget_refusals(experiment.uid)
        return DONE

    async def create_storage_pod(self, experiment: Experiment, action: CreateStoragePod) -> ActionResult:
        """Creates a pod that works in the bucket, and then the ConfigMaps that belong to it."""
        chunks = tuple(encode_chunks(action.trials))
        body = make_storage_pod(experiment, action, self._agent, len(chunks))
        name = body["metadata"]["name"]
        if in_the_way := await self._prepare_claim(experiment, body):
            return ActionResult(ActionStatus.REFUSED, in_the_way)
        try:
            path = paths.pods(experiment.namespace)
            made = await create_owned(self._client, path, body, decoders.decode_storage_pod)
        except ApiRefusal as refusal:
            if refusal.is_namespace_ending:
                return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.NAMESPACE_ENDING)
            if not _is_final(refusal):
                raise
            return ActionResult(ActionStatus.REFUSED, refusal.message)
        if made is None:
            return ActionResult(ActionStatus.REFUSED, f"a pod {name} with another owner already exists; delete it")
        for config_map in make_trial_chunks(experiment, made, chunks):
            if await create_owned(self._client, paths.config_maps(experiment.namespace), config_map) is None:
                name = config_map["metadata"]["name"]
                problem = f"a ConfigMap {name} with another owner already exists; delete it"
                return ActionResult(ActionStatus.FAILED, problem)
        self._observer.observe_pod(made)
        return DONE

    async def open_gates(self, experiment: Experiment, action: OpenGates) -> ActionResult:
        """Takes our gate away from pods, and leaves those of others. A pod that is gone will be seen to be."""
        gates = [{"name": GANG_GATE, "$patch": "delete"}]
        for name, uid in action.pods:
            body = {"metadata": {"uid": uid}, "spec": {"schedulingGates": gates}}
            try:
                pod = await self._client.request(
                    "PATCH",
                    paths.pod(experiment.namespace, name),
                    params={"fieldManager": FIELD_MANAGER},
                    body=body,
                    content_type=STRATEGIC_MERGE,
                )
            except (ResourceNotFound, ResourceConflict):
                continue
            self._observer.observe_pod(pod)
        return DONE

    async def delete(self, experiment: Experiment, action: DeletePod) -> ActionResult:
        """Deletes a pod, but not a newer one of the same name."""
        path = paths.pod(experiment.namespace, action.name)
        await delete_exactly(self._client, path, action.uid, action.grace)
        return DONE

    async def delete_finished(self, experiment: Experiment, action: DeleteFinishedPods) -> ActionResult:
        """Deletes finished pods: names no UIDs, since a request each would cost as much as the pods did to make."""
        labels = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_EXPERIMENT}={experiment.name}"
        selectors = {
            "labelSelector": f"{labels},{LABEL_TRIAL} in ({','.join(action.trials)})",
            "fieldSelector": ENDED,
        }
        await self._client.request("DELETE", paths.pods(experiment.namespace), params=selectors)
        return DONE

    async def _create(self, experiment: Experiment, action: CreatePod) -> ActionResult:
        bodies = self._make_pods_of_roles(experiment, action)
        try:
            in_the_way = await self._prepare_claim(experiment, *bodies.values())
            if in_the_way := in_the_way or await ensure_claim(self._client, experiment, action):
                return ActionResult(ActionStatus.FAILED, in_the_way)
            if action.replicas > 1:
                return await self._create_gang(experiment, action, bodies)
            return (await self._create_one(experiment, bodies[0]))[1]
        except ApiRefusal as refusal:
            if not _is_final(refusal):
                raise
            return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.POD_REFUSED)

    async def _ask(self, namespace: str, pod: Manifest) -> None:
        """A dry run."""
        params = {"dryRun": "All"}
        await self._client.request("POST", paths.pods(namespace), params=params, body=pod, idempotent=True)

    def _make_pods_of_roles(self, experiment: Experiment, action: CreatePod) -> dict[int, Manifest]:
        """A pod for each role, by the first rank that has it."""
        assert experiment.spec is not None  # there are no trials without
        roles = experiment.spec.list_pod_roles(evaluates=action.evaluates)
        return {role.first_rank: make_pod(experiment, action, self._agent, role.first_rank) for role in roles}

    async def _prepare_claim(self, experiment: Experiment, *pods: Manifest) -> str:
        """Has pods run where they can mount the store's volume; says what is in the way of that, if anything."""
        state = await self._claims.read(experiment)
        for pod in pods if state.shares_node else ():
            share_node(pod, find_store_claim(experiment))
        return state.problem

    async def _create_gang(
        self, experiment: Experiment, action: CreatePod, bodies: Mapping[int, Manifest]
    ) -> ActionResult:
        """Creates the pods of a gang by rank: those after rank 0 hold its UID, which is the attempt's id."""
        assert experiment.spec is not None  # there are no trials without
        service = make_gang_service(experiment, action)
        if await create_owned(self._client, paths.services(experiment.namespace), service) is None:
            name = service["metadata"]["name"]
            return ActionResult(ActionStatus.FAILED, f"a Service {name} with another owner already exists; delete it")
        leader_uid = ""
        for rank in range(action.replicas):
            body = bodies[experiment.spec.trial_template.find_role(rank).first_rank]
            made, result = await self._create_one(experiment, make_rank(body, experiment, action, rank, leader_uid))
            if made is None:
                return result
            if _is_of_earlier_request(made, action):
                message = f"pod {action.format_name(rank)} was made from another trial template, or with other limits"
                return ActionResult(ActionStatus.FAILED, message, ExperimentReason.TEMPLATE_CHANGED)
            leader_uid = leader_uid or made["metadata"]["uid"]
            if rank > 0 and not belongs_to(made, leader_uid):
                message = f"pod {action.format_name(rank)} was made for a pod of rank 0 that is gone"
                return ActionResult(ActionStatus.REFUSED, message)
        return DONE

    async def _create_one(self, experiment: Experiment, body: Manifest) -> tuple[Manifest | None, ActionResult]:
        """Creates a pod, or finds the one that is there; returns it, None where it is another's, and how it went."""
        name = body["metadata"]["name"]
        create = partial(create_owned, self._client, paths.pods(experiment.namespace), check=decoders.decode_pod)
        made = await self._restricted.send(experiment.namespace, body, create)
        if made is None:
            return None, ActionResult(ActionStatus.FAILED, f"a pod {name} with another owner already exists; delete it")
        if _read_trial_uid(made) != _read_trial_uid(body):
            problem = f"a pod {name} of a deleted trial with this name still exists"
            return None, ActionResult(ActionStatus.FAILED, problem)
        self._observer.observe_pod(made)
        return made, DONE


class FirstAnswers:
    """Pods that are requested concurrently, once the first of them is accepted.

    All pods of an experiment are made from one template, so one that the API server refuses for what it is stands for
    those that were to be made with it: they are not sent. Where the first is taken, the others follow at once, side by
    side. A refusal stands for a moment longer: a request may have been on its way here before the machine heard of it.
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._answers: dict[tuple[str, Hashable], asyncio.Future[ActionResult | None]] = {}
        """By experiment and template: the answer that is awaited, or the refusal that still stands."""

    async def ask(
        self, experiment: str, template: Hashable, request: Callable[[], Awaitable[ActionResult]]
    ) -> ActionResult:
        """Asks for a pod, or takes over the refusal of another one that is, or just was, asked for."""
        first = self._answers.get((experiment, template))
        if first is None:
            return await self._ask_first((experiment, template), request)
        done, _ = await asyncio.wait([first], timeout=self._patience)
        result = first.result() if done else None
        if result is not None and result.reason is ExperimentReason.POD_REFUSED:
            return result
        return await request()

    def forget_refusals(self, experiment: str) -> None:
        """The API server would take a pod of this experiment now, so each template has to be asked about anew."""
        for key, answer in list(self._answers.items()):
            if key[0] == experiment and answer.done():
                del self._answers[key]

    async def _ask_first(
        self, key: tuple[str, Hashable], request: Callable[[], Awaitable[ActionResult]]
    ) -> ActionResult:
        loop = asyncio.get_running_loop()
        answer = self._answers[key] = loop.create_future()
        result = None
        try:
            result = await request()
        finally:
            answer.set_result(result)
            if result is not None and result.reason is ExperimentReason.POD_REFUSED:
                loop.call_later(self._patience, self._drop, key, answer)
            else:
                self._drop(key, answer)
        return result

    def _drop(self, key: tuple[str, Hashable], answer: asyncio.Future[ActionResult | None]) -> None:
        if self._answers.get(key) is answer:
            del self._answers[key]


def _read_trial_uid(pod: Manifest) -> object:
    """UID of the trial that a warm pod was made for; None for a pod of another kind."""
    return (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MADE_FOR)


def _is_of_earlier_request(pod: Manifest, action: CreatePod) -> bool:
    """Whether a pod of a gang was made from another template, or with other limits, than the rest is to be."""
    metadata = pod["metadata"]
    own = (metadata.get("annotations") or {}).get(ANNOTATION_OWN_LIMITS, "")
    same_revision = metadata["labels"].get(LABEL_REVISION, action.revision) == action.revision
    return not same_revision or own != write_own_limits(action.own_limits)


def _is_final(refusal: ApiRefusal) -> bool:
    """Whether a pod was refused for what it is, so that it is refused however often it is sent."""
    passing = (
        refusal.is_namespace_ending,
        refusal.is_over_quota,
        refusal.is_lack_of_rights,
        refusal.is_without_account,
        refusal.is_about_new_kind,
        refusal.is_transient,
    )
    return (refusal.status in _REFUSALS or refusal.is_too_large) and not any(passing)
