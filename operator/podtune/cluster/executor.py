"""Carries out the runner's actions on the API server.

Each is safe to repeat: names are fixed beforehand, a name that is taken is looked at, a status is written only onto the
version that it was made from. What was made or seen on the way goes to the observer before the result is returned.
"""

from __future__ import annotations

import asyncio

from podtune.api.names import API_VERSION, EXPERIMENT_KIND, FIELD_MANAGER, TRIAL_KIND
from podtune.api.pods.parameter_text import format_parameter_labels
from podtune.api.pods.pod_template import AGENT_CONTAINER
from podtune.cluster import decoders
from podtune.cluster.client import MERGE, METADATA, ClusterClient, create_owned
from podtune.cluster.events import Reporter, make_event, make_own_event, publish_event
from podtune.cluster.observer import Observer
from podtune.cluster.pods.manifest import AgentSettings
from podtune.cluster.pods.requests import PodRequests
from podtune.cluster.pods.scratch_claim import delete_claim
from podtune.cluster.restore_sources import find_checkpoint
from podtune.cluster.revisions import drop_revision, keep_revision
from podtune.cluster.warm_start import load_warm_start
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceConflict, ResourceNotFound
from podtune.kube.manifests import Manifest, make_labels, make_trial, refer_to_experiment
from podtune.runner.actions import (
    AGENT_LOG_LINES,
    DONE,
    LOG_LINES,
    LOG_TAIL,
    ActionResult,
    ActionStatus,
    AdoptTrial,
    ClusterAction,
    CreatePod,
    CreateStoragePod,
    CreateTrial,
    DeleteExperiment,
    DeleteFinishedPods,
    DeletePod,
    DropRevision,
    EmitEvent,
    FetchLogs,
    FindCheckpoint,
    KeepRevision,
    LoadWarmStart,
    Logs,
    OpenGates,
    TryPod,
    WriteExperimentStatus,
    WriteMetadata,
    WriteTrialStatus,
)
from podtune.runner.records import Experiment

FIND_SECONDS = 30.0
"""Seconds until a look-up of one checkpoint is given up."""
LEARN_SECONDS = 300.0
"""Seconds until a look-up of all trials of an experiment is given up."""
MAX_LOG_BYTES = 4 << 20
"""A log is read up to here: a line may be as long as a program likes."""


class Executor:
    """Carries out actions of any experiment."""

    def __init__(self, client: ClusterClient, observer: Observer, agent: AgentSettings, reporter: Reporter) -> None:
        self._client = client
        self._observer = observer
        self._reporter = reporter
        self._pods = PodRequests(client, observer, agent)

    async def execute(self, experiment: Experiment, action: ClusterAction) -> ActionResult:
        """Carries out an action and says how it went; never raises what the API server or the network does."""
        try:
            return await self._dispatch(experiment, action)
        except ApiRefusal as refusal:
            return ActionResult(ActionStatus.FAILED, refusal.message)
        except (ApiError, decoders.MalformedObject, paths.PathError) as error:
            return ActionResult(ActionStatus.FAILED, str(error))

    async def _dispatch(self, experiment: Experiment, action: ClusterAction) -> ActionResult:
        match action:
            case CreateTrial():
                return await self._create_trial(experiment, action)
            case AdoptTrial():
                return await self._adopt_trial(experiment, action)
            case WriteTrialStatus():
                return await self._write_trial(experiment, action)
            case WriteExperimentStatus():
                return await self._write_experiment(experiment, action)
            case WriteMetadata():
                return await self._write_metadata(experiment, action)
            case DeleteExperiment():
                return await self._delete_experiment(experiment, action)
            case FetchLogs():
                return await self._fetch_logs(experiment, action)
            case KeepRevision():
                return await keep_revision(self._client, experiment, action)
            case DropRevision():
                return await drop_revision(self._client, experiment, action)
            case EmitEvent():
                return await self._emit(experiment, action)
            case LoadWarmStart() | FindCheckpoint():
                return await self._look_up(experiment, action)
            case _:
                return await self._request_pod(experiment, action)

    async def _request_pod(
        self,
        experiment: Experiment,
        action: CreatePod | TryPod | CreateStoragePod | OpenGates | DeletePod | DeleteFinishedPods,
    ) -> ActionResult:
        match action:
            case CreatePod():
                return await self._pods.create(experiment, action)
            case TryPod():
                return await self._pods.try_out(experiment, action)
            case CreateStoragePod():
                return await self._pods.create_storage_pod(experiment, action)
            case OpenGates():
                return await self._pods.open_gates(experiment, action)
            case DeletePod():
                return await self._pods.delete(experiment, action)
            case DeleteFinishedPods():
                return await self._pods.delete_finished(experiment, action)

    async def _look_up(self, experiment: Experiment, action: LoadWarmStart | FindCheckpoint) -> ActionResult:
        """Looks at what other experiments have come to; what takes too long is given up, and asked for again."""
        limit = LEARN_SECONDS if isinstance(action, LoadWarmStart) else FIND_SECONDS
        try:
            async with asyncio.timeout(limit):
                if isinstance(action, LoadWarmStart):
                    return await load_warm_start(self._client, experiment, action.experiment)
                return await find_checkpoint(self._client, experiment.namespace, action)
        except TimeoutError:
            return ActionResult(ActionStatus.FAILED, f"the API server did not answer within {limit:g} s; trying again")

    async def _create_trial(self, experiment: Experiment, action: CreateTrial) -> ActionResult:
        owner = refer_to_experiment(experiment.name, experiment.uid)
        spec = action.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        assert experiment.spec is not None  # there are no trials without
        labels = format_parameter_labels(experiment.spec.labels, action.spec.parameters)
        body = make_trial(action.name, experiment.name, owner, spec, labels)
        made = await create_owned(self._client, paths.trials(experiment.namespace), body, decoders.decode_trial)
        if made is None:
            return ActionResult(
                ActionStatus.FAILED, f"a Trial {action.name} with another owner already exists; delete it"
            )
        self._observer.observe_trial(made)
        return DONE

    async def _adopt_trial(self, experiment: Experiment, action: AdoptTrial) -> ActionResult:
        """Gives a Trial that a person has made its owner and its labels; other labels stay."""
        assert experiment.spec is not None  # who asks has a machine
        path = paths.trial(experiment.namespace, action.name)
        templates = experiment.spec.trial_template.metadata.labels if action.parameters else {}
        own = format_parameter_labels(templates, action.parameters)
        metadata: Manifest = {
            "resourceVersion": str(action.version),
            "labels": {**own, **make_labels(experiment.name)},
            "ownerReferences": [refer_to_experiment(experiment.name, experiment.uid)],
        }
        params = {"fieldManager": FIELD_MANAGER}
        try:
            adopted = await self._client.request(
                "PATCH", path, params=params, body={"metadata": metadata}, content_type=MERGE
            )
        except ResourceNotFound:
            return DONE
        except ResourceConflict as conflict:
            self._observer.observe_trial(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, conflict.message)
        self._observer.observe_trial(adopted)
        return DONE

    async def _write_trial(self, experiment: Experiment, action: WriteTrialStatus) -> ActionResult:
        if action.status.state is not None and action.status.state.is_finished:
            await delete_claim(self._client, experiment, action.name, action.uid)
        path = paths.trial(experiment.namespace, action.name)
        status = action.status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        try:
            metadata = await self._put_status(path, TRIAL_KIND, action.name, action.version, status)
        except ResourceNotFound:
            return DONE
        except ResourceConflict as conflict:
            self._observer.observe_trial(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, conflict.message)
        self._observer.observe_trial_status(metadata, action.status)
        return DONE

    async def _write_experiment(self, experiment: Experiment, action: WriteExperimentStatus) -> ActionResult:
        path = paths.experiment(experiment.namespace, experiment.name)
        status = action.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        try:
            metadata = await self._put_status(path, EXPERIMENT_KIND, experiment.name, action.version, status)
        except ResourceNotFound:
            return DONE
        except ResourceConflict as conflict:
            self._observer.observe_experiment(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, conflict.message)
        self._observer.observe_experiment_status(metadata, action.status)
        return DONE

    async def _put_status(self, path: str, kind: str, name: str, version: int, status: Manifest) -> Manifest:
        """Puts a status in the place of the one that it was made from.

        The whole status is ours, so it is replaced and not applied: there is nothing to merge, and merging is a third
        of what such a write costs the API server. Only metadata is asked back: the rest is as it was.
        """
        metadata = {"name": name, "resourceVersion": str(version)}
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "status": status}
        params = {"fieldManager": FIELD_MANAGER}
        answer = await self._client.request("PUT", paths.status_of(path), params=params, body=body, accept=METADATA)
        written: Manifest = answer["metadata"]
        return written

    async def _write_metadata(self, experiment: Experiment, action: WriteMetadata) -> ActionResult:
        path = paths.experiment(experiment.namespace, experiment.name)
        metadata: Manifest = {"resourceVersion": str(action.version), "finalizers": list(action.finalizers)}
        if action.without:
            metadata["annotations"] = dict.fromkeys(action.without)
        body = {"metadata": metadata}
        params = {"fieldManager": FIELD_MANAGER}
        try:
            written = await self._client.request("PATCH", path, params=params, body=body, content_type=MERGE)
        except ResourceNotFound:
            return DONE
        except ResourceConflict as conflict:
            self._observer.observe_experiment(await self._client.request("GET", path))
            return ActionResult(ActionStatus.FAILED, conflict.message)
        self._observer.observe_experiment(written)
        return DONE

    async def _delete_experiment(self, experiment: Experiment, action: DeleteExperiment) -> ActionResult:
        path = paths.experiment(experiment.namespace, experiment.name)
        known = {"uid": experiment.uid, "resourceVersion": str(action.version)}
        try:
            await self._client.request("DELETE", path, body={"preconditions": known, "propagationPolicy": "Background"})
        except ResourceNotFound:
            return DONE
        except ResourceConflict as conflict:  # it may not be as old any more
            return ActionResult(ActionStatus.FAILED, conflict.message)
        return DONE

    async def _fetch_logs(self, experiment: Experiment, action: FetchLogs) -> ActionResult:
        """Logs that are no longer there are as good as empty ones: the trial's end does not wait for them."""
        path = paths.log_of(paths.pod(experiment.namespace, action.pod))
        program, agent = "", ""
        if action.program:
            failed = paths.log_of(paths.pod(experiment.namespace, action.failed or action.pod))
            program = await self._read_log(failed, action.program, LOG_LINES)
        if action.agent:
            agent = await self._read_log(path, AGENT_CONTAINER, AGENT_LOG_LINES)
        logs = Logs(program_tail=program[-LOG_TAIL:].strip(), agent_lines=tuple(agent.splitlines()))
        return ActionResult(ActionStatus.DONE, logs=logs)

    async def _read_log(self, path: str, container: str, lines: int) -> str:
        params = {"container": container, "tailLines": str(lines), "limitBytes": str(MAX_LOG_BYTES)}
        try:
            return await self._client.get_text(path, params=params)
        except ApiRefusal as refusal:
            if refusal.is_transient:
                raise
            return ""

    async def _emit(self, experiment: Experiment, action: EmitEvent) -> ActionResult:
        """Emits an Event, of what is left in a bucket two: each is tried, whatever becomes of the other.

        Better counted twice than not told at all.
        """
        bodies = {experiment.namespace: make_event(experiment, action, self._reporter)}
        if action.left_at and self._reporter.namespace:
            bodies.setdefault(self._reporter.namespace, make_own_event(experiment, action, self._reporter))
        problem: ApiError | None = None
        for body in bodies.values():
            try:
                await publish_event(self._client, body)
            except ApiError as error:
                problem = error
        if problem is not None:
            raise problem
        return DONE
