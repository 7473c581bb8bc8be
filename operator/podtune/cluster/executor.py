"""Carries out the runner's actions on the API server.

Each is safe to repeat: names are fixed beforehand, a name that is taken is looked at, a status is written only onto the
version that it was made from. What was made or seen on the way goes to the observer before the result is returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from podtune.api.names import (
    ANNOTATION_MADE_FOR,
    API_VERSION,
    EXPERIMENT_KIND,
    FIELD_MANAGER,
    LABEL_EXPERIMENT,
    LABEL_MANAGED_BY,
    LABEL_TRIAL,
    MANAGED_BY,
    TRIAL_KIND,
    ExperimentReason,
)
from podtune.api.pods.pod_template import AGENT_CONTAINER, trial_container
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.cluster import decoders, ownership
from podtune.cluster.client import MERGE, METADATA, ClusterClient, Manifest
from podtune.cluster.events import Reporter, event_manifest, own_event_manifest
from podtune.cluster.first_answers import FirstAnswers
from podtune.cluster.pods.gang_requests import GangRequests
from podtune.cluster.pods.manifest import AgentSettings, pod_manifest
from podtune.cluster.pods.node_affinity import avoid
from podtune.cluster.pods.storage_pod import create_trial_chunks, storage_pod, trial_chunks
from podtune.cluster.pods.volume_claims import delete_claim, ensure_claim
from podtune.cluster.restore_sources import find_checkpoint
from podtune.cluster.warm_start import load_warm_start
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal
from podtune.runner.actions import (
    DONE,
    ActionResult,
    ActionStatus,
    CreatePod,
    CreateStoragePod,
    CreateTrial,
    DeleteExperiment,
    DeleteFinishedPods,
    DeletePod,
    EmitEvent,
    FetchLogs,
    FindCheckpoint,
    LoadWarmStart,
    Logs,
    OpenGates,
    TryPod,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from podtune.runner.records import Experiment

ClusterAction = (
    LoadWarmStart
    | FindCheckpoint
    | CreateTrial
    | CreatePod
    | TryPod
    | CreateStoragePod
    | OpenGates
    | DeletePod
    | DeleteFinishedPods
    | FetchLogs
    | WriteTrialStatus
    | WriteExperimentStatus
    | WriteMetadata
    | DeleteExperiment
    | EmitEvent
)

FIND_SECONDS = 30.0
"""Until a look-up of one checkpoint is given up."""
LEARN_SECONDS = 300.0
"""Until one of all trials of an experiment is."""
LOG_LINES = 200
LOG_TAIL = 16384
"""Characters of the program's last lines that are looked at: by `failures.rules`, and by people, the last of them."""
AGENT_LOG_LINES = 5000
MAX_LOG_BYTES = 4 << 20
"""A log is read up to here: a line may be as long as a program likes."""
ENDED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
"""Field selector of pods of which nothing runs any more."""
_REFUSALS = frozenset({400, 403, 413, 422})
"""Statuses by which the API server, or an admission webhook, says that it will never take this pod."""


class Observer(Protocol):
    """Is told of every object that an action made, changed or read again."""

    def experiment(self, body: Manifest) -> None:
        """An Experiment, as the API server has it now."""

    def trial(self, body: Manifest) -> None:
        """A Trial, as the API server has it now."""

    def pod(self, body: Manifest) -> None:
        """A trial's pod, as the API server has it now."""

    def experiment_status(self, metadata: Manifest, status: ExperimentStatus) -> None:
        """An Experiment has got a status; its metadata is as the API server has it now."""

    def trial_status(self, metadata: Manifest, status: TrialStatus) -> None:
        """A Trial has got a status; its metadata is as the API server has it now."""


class Executor:
    """Carries out actions of any experiment."""

    def __init__(self, client: ClusterClient, observer: Observer, agent: AgentSettings, reporter: Reporter) -> None:
        self._client = client
        self._observer = observer
        self._agent = agent
        self._reporter = reporter
        self._first_answers = FirstAnswers()
        self._gangs = GangRequests(client, observer.pod, self._create_one_pod)

    async def execute(self, experiment: Experiment, action: ClusterAction) -> ActionResult:
        """Carries out an action.

        Returns:
            How it went; never raises what the API server or the network does.
        """
        try:
            return await self._dispatch(experiment, action)
        except ApiRefusal as refusal:
            return ActionResult(ActionStatus.FAILED, refusal.message)
        except (ApiError, decoders.MalformedObject, paths.PathError) as error:
            return ActionResult(ActionStatus.FAILED, str(error))

    async def _dispatch(self, experiment: Experiment, action: ClusterAction) -> ActionResult:
        match action:
            case LoadWarmStart() | FindCheckpoint():
                return await self._look_up(experiment, action)
            case CreateTrial():
                return await self._create_trial(experiment, action)
            case CreatePod() | TryPod():
                return await self._ask_for_pod(experiment, action)
            case CreateStoragePod():
                return await self._create_storage_pod(experiment, action)
            case WriteTrialStatus():
                return await self._write_trial(experiment, action)
            case WriteExperimentStatus():
                return await self._write_experiment(experiment, action)
            case WriteMetadata() | DeleteExperiment():
                return await self._change_experiment(experiment, action)
            case OpenGates():
                return await self._gangs.open_gates(experiment, action)
            case DeletePod():
                return await self._delete_pod(experiment, action)
            case DeleteFinishedPods():
                return await self._delete_finished(experiment, action)
            case FetchLogs():
                return await self._fetch_logs(experiment, action)
            case EmitEvent():
                return await self._emit(experiment, action)

    async def _look_up(self, experiment: Experiment, action: LoadWarmStart | FindCheckpoint) -> ActionResult:
        """Looks at what other experiments have come to; what takes too long is given up, and asked for again."""
        limit = LEARN_SECONDS if isinstance(action, LoadWarmStart) else FIND_SECONDS
        try:
            async with asyncio.timeout(limit):
                if isinstance(action, LoadWarmStart):
                    return await load_warm_start(self._client, experiment, action.experiment)
                return await find_checkpoint(self._client, experiment.namespace, action)
        except TimeoutError:
            return ActionResult(
                ActionStatus.FAILED, f"the API server has not answered in {limit:g} s; it is asked again"
            )

    async def _create_trial(self, experiment: Experiment, action: CreateTrial) -> ActionResult:
        body: Manifest = {
            "apiVersion": API_VERSION,
            "kind": TRIAL_KIND,
            "metadata": {
                "name": action.name,
                "labels": ownership.labels(experiment.name),
                "ownerReferences": [ownership.of_experiment(experiment)],
            },
            "spec": action.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        }
        path = paths.trials(experiment.namespace)
        made = await ownership.create(self._client, path, body, decoders.decode_trial)
        if made is None:
            return ActionResult(ActionStatus.FAILED, f"a Trial {action.name} of another owner is in the way; delete it")
        self._observer.trial(made)
        return DONE

    async def _ask_for_pod(self, experiment: Experiment, action: CreatePod | TryPod) -> ActionResult:
        if isinstance(action, TryPod):
            return await self._try_pod(experiment, action)
        template = (experiment.uid, *sorted(action.limits.items()))
        return await self._first_answers.ask(template, lambda: self._create_pod(experiment, action))

    async def _create_pod(self, experiment: Experiment, action: CreatePod) -> ActionResult:
        body = pod_manifest(experiment, action, self._agent)
        avoid(body, action.avoid)
        try:
            if in_the_way := await ensure_claim(self._client, experiment, action):
                return ActionResult(ActionStatus.FAILED, in_the_way)
            if action.replicas > 1:
                return await self._gangs.create(experiment, action, body)
            return (await self._create_one_pod(experiment, body))[1]
        except ApiRefusal as refusal:
            if not _is_final(refusal):
                raise
            return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.POD_REFUSED)

    async def _try_pod(self, experiment: Experiment, action: TryPod) -> ActionResult:
        """Asks by a dry run, which passes everything that a pod has to pass but the database.

        Whatever is not said of the pod itself (it is there already, quota is used up, an admission webhook knows no dry
        runs) is no refusal: the request that makes it comes next, and is answered for good.
        """
        body = pod_manifest(experiment, action.creation, self._agent)
        try:
            await self._client.request("POST", paths.pods(experiment.namespace), params={"dryRun": "All"}, body=body)
        except ApiRefusal as refusal:
            if refusal.is_transient:
                raise
            if _is_final(refusal) and not refusal.is_about_dry_runs:
                return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.POD_REFUSED)
        return DONE

    async def _create_one_pod(self, experiment: Experiment, body: Manifest) -> tuple[Manifest | None, ActionResult]:
        name = body["metadata"]["name"]
        path = paths.pods(experiment.namespace)
        made = await ownership.create(self._client, path, body, decoders.decode_pod)
        if made is None:
            return None, ActionResult(ActionStatus.FAILED, f"a pod {name} of another owner is in the way; delete it")
        if _made_for(made) != _made_for(body):
            return None, ActionResult(
                ActionStatus.FAILED, f"a pod {name} of a former trial of that name is still there"
            )
        self._observer.pod(made)
        return made, DONE

    async def _create_storage_pod(self, experiment: Experiment, action: CreateStoragePod) -> ActionResult:
        """First the pod, then the ConfigMaps that belong to it."""
        chunks = trial_chunks(action)
        body = storage_pod(experiment, action, self._agent, len(chunks))
        name = body["metadata"]["name"]
        try:
            path = paths.pods(experiment.namespace)
            made = await ownership.create(self._client, path, body, decoders.decode_storage_pod)
        except ApiRefusal as refusal:
            if refusal.is_namespace_ending:
                return ActionResult(ActionStatus.REFUSED, refusal.message, ExperimentReason.NAMESPACE_ENDING)
            if not _is_final(refusal):
                raise
            return ActionResult(ActionStatus.REFUSED, refusal.message)
        if made is None:
            return ActionResult(ActionStatus.REFUSED, f"a pod {name} of another owner is in the way; delete it")
        if in_the_way := await create_trial_chunks(self._client, experiment, made, chunks):
            return ActionResult(ActionStatus.FAILED, in_the_way)
        self._observer.pod(made)
        return DONE

    async def _write_trial(self, experiment: Experiment, action: WriteTrialStatus) -> ActionResult:
        if action.status.state is not None and action.status.state.is_finished:
            await delete_claim(self._client, experiment, action.name, action.uid)
        status = action.status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return await self._write_status(
            paths.trial(experiment.namespace, action.name),
            _with_status(TRIAL_KIND, action.name, action.version, status),
            written=lambda metadata: self._observer.trial_status(metadata, action.status),
            moved_on=self._observer.trial,
        )

    async def _write_experiment(self, experiment: Experiment, action: WriteExperimentStatus) -> ActionResult:
        status = action.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        return await self._write_status(
            paths.experiment(experiment.namespace, experiment.name),
            _with_status(EXPERIMENT_KIND, experiment.name, action.version, status),
            written=lambda metadata: self._observer.experiment_status(metadata, action.status),
            moved_on=self._observer.experiment,
        )

    async def _change_experiment(
        self, experiment: Experiment, action: WriteMetadata | DeleteExperiment
    ) -> ActionResult:
        if isinstance(action, DeleteExperiment):
            return await self._delete_experiment(experiment, action)
        return await self._write_metadata(experiment, action)

    async def _delete_experiment(self, experiment: Experiment, action: DeleteExperiment) -> ActionResult:
        path = paths.experiment(experiment.namespace, experiment.name)
        known = {"uid": experiment.uid, "resourceVersion": str(action.version)}
        try:
            await self._client.request("DELETE", path, body={"preconditions": known, "propagationPolicy": "Background"})
        except ApiRefusal as refusal:
            if refusal.is_conflict:
                return ActionResult(ActionStatus.FAILED, refusal.message)  # it may not be as old any more
            if not refusal.is_not_found:
                raise
        return DONE

    async def _write_metadata(self, experiment: Experiment, action: WriteMetadata) -> ActionResult:
        path = paths.experiment(experiment.namespace, experiment.name)
        metadata: Manifest = {"resourceVersion": str(action.version), "finalizers": list(action.finalizers)}
        if action.without:
            metadata["annotations"] = dict.fromkeys(action.without)
        body = {"metadata": metadata}
        params = {"fieldManager": FIELD_MANAGER}
        try:
            written = await self._client.request("PATCH", path, params=params, body=body, content_type=MERGE)
        except ApiRefusal as refusal:
            if refusal.is_not_found:
                return DONE
            if not refusal.is_conflict:
                raise
            self._observer.experiment(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, refusal.message)
        self._observer.experiment(written)
        return DONE

    async def _write_status(
        self, path: str, body: Manifest, *, written: Callable[[Manifest], None], moved_on: Callable[[Manifest], None]
    ) -> ActionResult:
        """Puts a status in the place of the one that it was made from; nothing is done where the object is gone.

        The whole status is ours, so it is replaced and not applied: there is nothing to merge, and merging is a third
        of what such a write costs the API server. Only metadata is asked back: the rest is as it was.

        Args:
            path: The object.
            body: Its status, and the version that this was made from.
            written: Is told of the object's metadata when it has got the status.
            moved_on: Is told of the object, read again, when it has another version by now.
        """
        params = {"fieldManager": FIELD_MANAGER}
        try:
            answer = await self._client.request("PUT", paths.status_of(path), params=params, body=body, accept=METADATA)
        except ApiRefusal as refusal:
            if refusal.is_not_found:
                return DONE
            if not refusal.is_conflict:
                raise
            moved_on(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, refusal.message)
        written(answer["metadata"])
        return DONE

    async def _delete_pod(self, experiment: Experiment, action: DeletePod) -> ActionResult:
        path = paths.pod(experiment.namespace, action.name)
        try:
            grace = {} if action.grace is None else {"gracePeriodSeconds": action.grace}
            await self._client.request("DELETE", path, body={"preconditions": {"uid": action.uid}, **grace})
        except ApiRefusal as refusal:
            if not refusal.is_not_found and not refusal.is_conflict:
                raise
        return DONE

    async def _delete_finished(self, experiment: Experiment, action: DeleteFinishedPods) -> ActionResult:
        """The one deletion that names no UIDs: a request each would cost as much as the pods did to make."""
        labels = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_EXPERIMENT}={experiment.name}"
        selectors = {
            "labelSelector": f"{labels},{LABEL_TRIAL} in ({','.join(action.trials)})",
            "fieldSelector": ENDED,
        }
        await self._client.request("DELETE", paths.pods(experiment.namespace), params=selectors)
        return DONE

    async def _fetch_logs(self, experiment: Experiment, action: FetchLogs) -> ActionResult:
        """Logs that are no longer there are as good as empty ones: the trial's end does not wait for them."""
        assert experiment.spec is not None  # there are no trials without
        path = paths.log_of(paths.pod(experiment.namespace, action.pod))
        program, agent = "", ""
        if action.program:
            container = trial_container(experiment.spec.trial_template.spec)
            failed = paths.log_of(paths.pod(experiment.namespace, action.failed or action.pod))
            program = await self._log(failed, container, LOG_LINES)
        if action.agent:
            agent = await self._log(path, AGENT_CONTAINER, AGENT_LOG_LINES)
        logs = Logs(program_tail=program[-LOG_TAIL:].strip(), agent_lines=tuple(agent.splitlines()))
        return ActionResult(ActionStatus.DONE, logs=logs)

    async def _log(self, path: str, container: str, lines: int) -> str:
        params = {"container": container, "tailLines": str(lines), "limitBytes": str(MAX_LOG_BYTES)}
        try:
            return await self._client.text(path, params=params)
        except ApiRefusal as refusal:
            if refusal.is_transient:
                raise
            return ""

    async def _emit(self, experiment: Experiment, action: EmitEvent) -> ActionResult:
        """Emits an Event, of what is left in a bucket two: each is tried, whatever becomes of the other."""
        bodies = {experiment.namespace: event_manifest(experiment, action, self._reporter)}
        if action.left_at and self._reporter.namespace:
            bodies.setdefault(self._reporter.namespace, own_event_manifest(experiment, action, self._reporter))
        problem: ApiError | None = None
        for namespace, body in bodies.items():
            try:
                await self._client.request("POST", paths.events(namespace), body=body)
            except ApiError as error:
                problem = error
        if problem is not None:
            raise problem
        return DONE


def _with_status(kind: str, name: str, version: int, status: Manifest) -> Manifest:
    metadata = {"name": name, "resourceVersion": str(version)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}


def _made_for(pod: Manifest) -> object:
    """UID of the trial that a warm pod was made for; None for a pod of another kind."""
    return (pod["metadata"].get("annotations") or {}).get(ANNOTATION_MADE_FOR)


def _is_final(refusal: ApiRefusal) -> bool:
    """Whether a pod was refused for what it is, so that it is refused however often it is sent."""
    passing = (
        refusal.is_namespace_ending,
        refusal.is_over_quota,
        refusal.is_lack_of_rights,
        refusal.is_without_account,
        refusal.is_transient,
    )
    return (refusal.status in _REFUSALS or refusal.is_too_large) and not any(passing)
