"""What the pod of an attempt looks like: the user's template, and the agent beside it.

The agent is a native sidecar, so it starts before the program and ends after it. It runs as a user of its own, alone
holds the token for the results server and the credentials of the bucket, and shares `/podtune` with the program.
"""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.base import parse_duration
from podtune.api.names import (
    ANNOTATION_AVOIDED_NODES,
    ANNOTATION_CONTAINER,
    ANNOTATION_GRACE,
    ANNOTATION_MADE_FOR,
    ANNOTATION_OWN_LIMITS,
    ANNOTATION_PARAMETERS,
    ANNOTATION_TEMPLATE_HASH,
    LABEL_ATTEMPT,
    LABEL_MADE_FOR,
    LABEL_REVISION,
    LABEL_STAGE,
    STAGE_EVALUATE,
    TOKEN_AUDIENCE,
)
from podtune.api.pods.function_volume import FUNCTION_VOLUME, find_function
from podtune.api.pods.limit_names import select_limits
from podtune.api.pods.parameter_text import format_labels
from podtune.api.pods.pod_template import AGENT_CONTAINER, AGENT_UID, RESTORE_CONTAINER, find_trial_container
from podtune.api.resources.checkpoints import Checkpoints, CheckpointStore
from podtune.api.resources.experiment import ExperimentSpec
from podtune.cluster.pods.result_sources import (
    encode_results,
    list_hidden,
    make_endpoint_probe,
    make_source_variables,
    make_wandb_variables,
)
from podtune.cluster.pods.scratch import find_scratch, make_scratch_mounts, make_scratch_volumes
from podtune.cluster.pods.security_context import confine, make_agent_profile
from podtune.cluster.pods.store_access import (
    encode_store,
    encode_sync,
    make_credentials_env,
    make_store_mounts,
    make_store_volumes,
)
from podtune.cluster.pods.tracker_access import (
    encode_event_file_table,
    make_agent_tracker_variables,
    make_tracker_mounts,
    make_tracker_variables,
    make_tracker_volumes,
)
from podtune.cluster.pods.trial_module import add_copy_hook, needs_trial_module
from podtune.kube.agent_pods import AGENT_CONFINES, let_agent_write
from podtune.kube.manifests import Manifest, make_labels, refer_to_experiment, refer_to_trial
from podtune.kube.trace_context import ENV_TRACEPARENT, format_traceparent
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.checkpoint import encode_restore_list
from podtune.runner.actions import CreatePod
from podtune.runner.attempts import grace_periods
from podtune.runner.records import Experiment
from podtune.runner.resources import write_own_limits
from podtune.runner.trial.parameters import compute_configuration_digest, decode_configuration
from podtune.trial import layout

SHARED_VOLUME = "podtune-shared"
STATE_VOLUME = "podtune-state"
"""The agent's own, in a pod that is reused."""
INPUTS_VOLUME = "podtune-inputs"
"""Holds the parameters and the agent's token. The agent mounts all of it, the program the parameters alone."""
INPUTS_DIRECTORY = "/var/run/secrets/podtune.dev"
TOKEN = "token"
TOKEN_SECONDS = 3600
DRAIN_MARGIN = 10
"""Seconds of the grace period that are left to the program and to the kubelet."""
DRAIN_WITHOUT_STORE = 20
"""Seconds that an agent may take at the end which has results to deliver, and no checkpoint to store."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LONGEST_DRAIN = 86_399
"""Seconds that an agent may be told."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The agent's container, the same for all pods, and what holds for the containers beside it.

    Attributes:
        non_root: Whether a trial whose template does not say otherwise must not run as root.
        resources: What the container requests, and its limits; None for what agents have by default.
        find_authorities: Finds those that a pod made now has to trust when it reports; none without TLS.
        traces: Whether attempts are traced, and programs are told of their spans.
    """

    image: str
    pull_policy: str
    results_url: str
    non_root: bool = False
    resources: Mapping[str, Any] | None = None
    find_authorities: Callable[[], str] = lambda: ""
    traces: bool = False

    def make_container(self, name: str, arguments: Sequence[str]) -> Manifest:
        """A container of the agent's image that runs one of its commands, with what all of them have in common."""
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": self.pull_policy,
            "args": [*arguments],
            **AGENT_CONFINES,
            **({} if self.resources is None else {"resources": copy.deepcopy(dict(self.resources))}),
        }


def make_pod(experiment: Experiment, action: CreatePod, agent: AgentSettings, rank: int = 0) -> Manifest:
    """The pod of an attempt; of a gang, that of a rank without what only a gang has, made from its role's template."""
    role = _get_spec(experiment).find_pod_role(rank, evaluates=action.evaluates)
    template, limits = role.template, select_limits(action.limits, role.name)
    spec = copy.deepcopy(template.spec)
    spec["restartPolicy"] = "Never"
    spec["automountServiceAccountToken"] = False
    confine(spec, non_root=agent.non_root)
    drain = _extend_grace_period(spec, _get_spec(experiment).checkpoints)
    store, scratch = _get_spec(experiment).checkpoints.store, find_scratch(experiment)
    if scratch is not None or (store is not None and store.volume is not None):
        let_agent_write(spec, AGENT_UID)
    spec["volumes"] = [
        *(spec.get("volumes") or ()),
        *_make_volumes(),
        *([{"name": STATE_VOLUME, "emptyDir": {}}] if action.template_hash else []),
        *make_store_volumes(store),
        *make_scratch_volumes(scratch, action.trial),
        *make_tracker_volumes(_get_spec(experiment).trackers),
    ]
    own_containers = spec.get("initContainers") or []
    environment = _build_program_environment(experiment, action)
    if agent.traces and not action.template_hash:  # a reused pod has one environment for many attempts
        environment.append(_make_trace_variable(experiment, action))
    for container in [*spec["containers"], *own_containers]:
        own = container.get("env") or ()
        named = list_hidden({entry["name"] for entry in own})
        container["env"] = [*(entry for entry in environment if entry["name"] not in named), *own]
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *_make_program_mounts()]
    if limits:
        _set_limits(
            next(c for c in spec["containers"] if c.get("name", "") == find_trial_container(template.spec)), limits
        )
    agents = _make_agent_containers(experiment, action, agent, drain, _find_kept_function(experiment, template.spec))
    if needs_trial_module(template.spec):
        add_copy_hook(agents[-1])
    for container in agents:
        container["securityContext"] = {**container["securityContext"], **make_agent_profile(spec["securityContext"])}
    spec["initContainers"] = [*agents, *own_containers]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": action.format_name(rank),
            "labels": {
                **format_labels(template.metadata.labels, action.spec.parameters),
                **make_pod_labels(experiment.name, action),
            },
            "annotations": {
                **template.metadata.annotations,
                ANNOTATION_PARAMETERS: _encode_parameters(experiment, action),
                ANNOTATION_CONTAINER: find_trial_container(template.spec),
                **_make_grace_annotation(template.spec, spec),
                **_make_shared_annotations(action),
                **_make_own_limits_annotation(action),
            },
            "ownerReferences": [_build_owner(experiment, action)],
        },
        "spec": spec,
    }
    avoid_nodes(pod, action.avoid)
    return pod


def avoid_nodes(pod: Manifest, nodes: Sequence[str]) -> None:
    """Adds to a pod's manifest that it must not run on some nodes, and says so in an annotation.

    Nodes are told by their names, not by a label that may differ: a field selector takes one name each. A node has to
    fulfil all of one term, any one of them, so each term gets them all.
    """
    if not nodes:
        return
    pod["metadata"]["annotations"][ANNOTATION_AVOIDED_NODES] = ",".join(nodes)
    affinity = copy.deepcopy(pod["spec"].get("affinity") or {})
    of_nodes = affinity.get("nodeAffinity") or {}
    required = of_nodes.get(_REQUIRED) or {}
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        for term in required.get("nodeSelectorTerms") or [{}]
    ]
    affinity["nodeAffinity"] = {**of_nodes, _REQUIRED: {**required, "nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = affinity


def make_pod_labels(experiment: str, action: CreatePod) -> dict[str, str]:
    """The labels by which a trial's pods are found; a shared one is not deleted with the first that it has served."""
    own = {LABEL_ATTEMPT: str(action.attempt), LABEL_REVISION: action.revision}
    if action.evaluates:
        own[LABEL_STAGE] = STAGE_EVALUATE
    if action.template_hash:
        return {**make_labels(experiment), LABEL_MADE_FOR: action.trial, **own}
    return {**make_labels(experiment, action.trial), **own}


def _make_shared_annotations(action: CreatePod) -> dict[str, str]:
    """The metadata that says which trial a reusable pod was created for, and of which kind it is."""
    return (
        {ANNOTATION_MADE_FOR: action.trial_uid, ANNOTATION_TEMPLATE_HASH: action.template_hash}
        if action.template_hash
        else {}
    )


def _make_own_limits_annotation(action: CreatePod) -> dict[str, str]:
    """The limits that only the pod's trial has; a reusable pod is told from others by its template hash."""
    own = "" if action.template_hash else write_own_limits(action.own_limits)
    return {ANNOTATION_OWN_LIMITS: own} if own else {}


def _build_owner(experiment: Experiment, action: CreatePod) -> Manifest:
    """A warm pod outlives each of the trials that it serves."""
    if action.template_hash:
        return refer_to_experiment(experiment.name, experiment.uid)
    return refer_to_trial(action.trial, action.trial_uid)


def _set_limits(container: Manifest, limits: Mapping[str, str]) -> None:
    """Puts limits in the place of a container's own; what it requests of the same resources goes along with them."""
    resources = copy.deepcopy(container.get("resources") or {})
    wanted = {name: amount for name, amount in limits.items() if not _is_zero(amount)}
    kept = {name: amount for name, amount in (resources.get("limits") or {}).items() if name not in limits}
    resources["limits"] = kept | wanted
    if requests := resources.get("requests"):
        given_up = limits.keys() - wanted.keys()
        resources["requests"] = {name: wanted.get(name, own) for name, own in requests.items() if name not in given_up}
    container["resources"] = resources


def _is_zero(amount: str) -> bool:
    """Whether a quantity is nothing, however it is written."""
    return not any(digit in "123456789" for digit in re.sub("[eE].*", "", amount))


def _extend_grace_period(spec: Manifest, checkpoints: Checkpoints) -> int:
    """Adds to the template's grace period, which is the program's, the time that the last checkpoint may take.

    The kubelet gives a sidecar the whole grace period once the program has ended by itself. After a deletion, program
    and agent share it.

    Returns:
        Seconds that the agent may take at the end.
    """
    grace = spec["terminationGracePeriodSeconds"] = grace_periods.read_from_template(spec)
    if not isinstance(grace, int):
        return 1  # it is the API server's to refuse
    longest = DRAIN_WITHOUT_STORE
    if checkpoints.store is not None:
        longest = min(LONGEST_DRAIN, math.ceil(parse_duration(checkpoints.drain)))
        spec["terminationGracePeriodSeconds"] = grace = grace + longest
    return max(1, min(longest, grace - DRAIN_MARGIN))


def _make_grace_annotation(template: Mapping[str, Any], spec: Manifest) -> dict[str, str]:
    """How much of the pod's grace period is the program's, where that is not all of it."""
    own = grace_periods.read_from_template(template)
    return {} if own == spec["terminationGracePeriodSeconds"] else {ANNOTATION_GRACE: str(own)}


def _encode_parameters(experiment: Experiment, action: CreatePod) -> str:
    """The configuration, for the file that the program reads."""
    return json.dumps(decode_configuration(_get_spec(experiment).parameters, action.spec.parameters))


def _build_program_environment(experiment: Experiment, action: CreatePod) -> list[Manifest]:
    """Variables of the program's containers; before the template's own, so that these can refer to them."""
    values = {
        layout.ENV_DIRECTORY: layout.DIRECTORY,
        layout.ENV_EXPERIMENT: experiment.name,
        **({layout.ENV_REUSE: "true"} if action.template_hash else {}),
        layout.ENV_TRIAL: action.trial,
        layout.ENV_INDEX: str(action.spec.index),
        layout.ENV_ATTEMPT: str(action.attempt),
        **({} if action.spec.seed is None else {layout.ENV_SEED: str(action.spec.seed)}),
        **({layout.ENV_DISPLAY_NAME: action.spec.display_name} if action.spec.display_name else {}),
        **{f"{layout.ENV_PARAMETER_PREFIX}{name}": value for name, value in action.spec.parameters.items()},
        # Else Python keeps lines back until it has some thousand characters, and a scheduler decides too late.
        **({"PYTHONUNBUFFERED": "1"} if _get_spec(experiment).results.stdout is not None else {}),
        **make_tracker_variables(_get_spec(experiment).trackers, experiment.name, action),
    }
    own = [{"name": name, "value": escape_expansions(value)} for name, value in values.items()]
    spec = _get_spec(experiment)
    if spec.results.wandb is not None:
        own += make_wandb_variables(is_offline=spec.trackers.wandb is None)
    return own + make_source_variables(experiment.namespace, action.trial, action.trial_uid, spec.results.sources)


def _make_trace_variable(experiment: Experiment, action: CreatePod) -> Manifest:
    """The variable by which what the program traces is a part of its attempt."""
    traceparent = format_traceparent(experiment.uid, action.trial_uid, action.attempt)
    return {"name": ENV_TRACEPARENT, "value": traceparent}


def _find_kept_function(experiment: Experiment, template: Mapping[str, Any]) -> str:
    """The ConfigMap whose function the agent stores with the snapshot; empty where there is none, or no snapshot."""
    spec = _get_spec(experiment)
    is_kept = spec.checkpoints.store is not None and spec.snapshot.seconds > 0
    function = find_function(template) if is_kept else None
    return function.config_map if function is not None else ""


def _format_function_directory(config_map: str) -> str:
    """Agents know the ConfigMap's name by it."""
    return f"{agent_env.FUNCTION_DIRECTORY}/{config_map}"


def _make_agent_containers(
    experiment: Experiment, action: CreatePod, agent: AgentSettings, drain: int, function: str
) -> list[Manifest]:
    """The agent, and before it, where there is or may be a checkpoint to start from, the container that restores it."""
    variables = _collect_agent_variables(experiment, action, agent, drain)
    if function:
        variables[agent_env.STORED_FUNCTION] = _format_function_directory(function)
    store = _get_spec(experiment).checkpoints.store
    scratch = make_scratch_mounts(find_scratch(experiment))
    sidecar = _make_agent_container(AGENT_CONTAINER, "run", variables, store, agent)
    sidecar["restartPolicy"] = "Always"
    if _get_spec(experiment).results.sources:
        sidecar["startupProbe"] = make_endpoint_probe()
        sidecar["env"].append(_make_uid_variable())  # not all ranks of a gang have a token to learn it from
    sidecar["volumeMounts"].append({"name": INPUTS_VOLUME, "mountPath": INPUTS_DIRECTORY, "readOnly": True})
    sidecar["volumeMounts"] += [*scratch, *make_tracker_mounts(_get_spec(experiment).trackers)]
    if function:
        mount = {"name": FUNCTION_VOLUME, "mountPath": _format_function_directory(function), "readOnly": True}
        sidecar["volumeMounts"].append(mount)
    if action.template_hash:
        sidecar["volumeMounts"].append({"name": STATE_VOLUME, "mountPath": agent_env.STATE_DIRECTORY})
    if store is None or not (action.restore or action.find):
        return [sidecar]
    restore = _make_agent_container(RESTORE_CONTAINER, "restore", variables, store, agent)
    restore["volumeMounts"] += scratch
    restore["env"].append(_make_uid_variable())
    return [restore, sidecar]


def _make_uid_variable() -> Manifest:
    """The variable by which an agent knows its pod's UID that has no token to learn it from."""
    return {"name": agent_env.POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}


def _make_agent_container(
    name: str, command: str, variables: Mapping[str, str], store: CheckpointStore | None, agent: AgentSettings
) -> Manifest:
    store_mounts = make_store_mounts(store, read_only=name == RESTORE_CONTAINER)
    return {
        **agent.make_container(name, [command, escape_expansions(json.dumps(variables))]),
        "env": make_credentials_env(store),
        "volumeMounts": [{"name": SHARED_VOLUME, "mountPath": layout.DIRECTORY}, *store_mounts],
    }


def _collect_agent_variables(
    experiment: Experiment, action: CreatePod, agent: AgentSettings, drain: int
) -> dict[str, str]:
    """What the agent is told; see `podtune.protocol.agent_environment`."""
    spec = _get_spec(experiment)
    values = {
        layout.ENV_DIRECTORY: layout.DIRECTORY,
        layout.ENV_EXPERIMENT: experiment.name,
        layout.ENV_TRIAL: action.trial,
        layout.ENV_ATTEMPT: str(action.attempt),
        agent_env.RESULTS_URL: agent.results_url,
        **({agent_env.RESULTS_AUTHORITIES: authorities} if (authorities := agent.find_authorities()) else {}),
        agent_env.TOKEN_FILE: f"{INPUTS_DIRECTORY}/{TOKEN}",
        agent_env.NAMESPACE: experiment.namespace,
        agent_env.EXPERIMENT_UID: experiment.uid,
        agent_env.OBJECTIVE_METRIC: spec.objective.metric if action.evaluates else spec.training_objective.metric,
        agent_env.DRAIN_SECONDS: str(drain),
    }
    if spec.checkpoints.store is not None:
        values[agent_env.STORE] = encode_store(spec.checkpoints.store)
        if sync := encode_sync(spec.checkpoints, spec.results, spec.logs, spec.snapshot):
            values[agent_env.SYNC] = sync
        if find_scratch(experiment):
            values[agent_env.SCRATCH] = agent_env.SCRATCH_DIRECTORY
        values[agent_env.CONFIGURATION] = compute_configuration_digest(action.spec)
        if action.find:
            values[agent_env.FIND_CHECKPOINTS] = "true"
        if action.restore:
            values[agent_env.RESTORE_FROM] = encode_restore_list(checkpoint.ref for checkpoint in action.restore)
            if action.restore_or_fail:
                values[agent_env.RESTORE_OR_FAIL] = "true"
    if action.template_hash:
        values[layout.ENV_REUSE] = "true"
        values[agent_env.STATE] = agent_env.STATE_DIRECTORY
    values |= make_agent_tracker_variables(spec.trackers, experiment.name, action)
    if spec.trackers.tensor_board is not None:
        values[agent_env.EVENT_FILE_TABLES] = encode_event_file_table(spec)
    return values | encode_results(spec.results)


def _make_volumes() -> list[Manifest]:
    """One projected volume instead of two of a kind each: the API server pays for each field on every write."""
    parameters = {
        "path": layout.PARAMETERS,
        "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_PARAMETERS}']"},
    }
    token = {"audience": TOKEN_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN}
    sources = [{"downwardAPI": {"items": [parameters]}}, {"serviceAccountToken": token}]
    return [
        {"name": SHARED_VOLUME, "emptyDir": {}},
        {"name": INPUTS_VOLUME, "projected": {"sources": sources}},
    ]


def _make_program_mounts() -> list[Manifest]:
    parameters = f"{layout.DIRECTORY}/{layout.PARAMETERS}"
    return [
        {"name": SHARED_VOLUME, "mountPath": layout.DIRECTORY},
        {"name": INPUTS_VOLUME, "mountPath": parameters, "subPath": layout.PARAMETERS, "readOnly": True},
    ]


def escape_expansions(value: str) -> str:
    """Keeps Kubernetes from expanding $(…) in a value."""
    return value.replace("$", "$$")


def _get_spec(experiment: Experiment) -> ExperimentSpec:
    assert experiment.spec is not None  # there are no trials without
    return experiment.spec
