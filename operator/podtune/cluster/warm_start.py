"""Finds the results of an earlier experiment, and keeps them in a ConfigMap of the experiment that learns from them."""

from __future__ import annotations

from podtune.api.conditions import find_condition
from podtune.api.names import (
    EXPERIMENT_KIND,
    FIELD_MANAGER,
    ConditionType,
    ExperimentReason,
)
from podtune.api.resources.experiment import ExperimentSpec
from podtune.cluster import decoders
from podtune.cluster.client import ClusterClient, list_pages, read_if_there
from podtune.kube import paths
from podtune.kube.errors import ResourceExists
from podtune.kube.manifests import (
    Manifest,
    find_owner_uid,
    make_warm_start,
    make_warm_start_name,
    refer_to_experiment,
    select_experiment,
)
from podtune.runner.actions import ActionResult, ActionStatus
from podtune.runner.records import Experiment, Trial
from podtune.runner.search import warm_start
from podtune.runner.search.warm_start import RESULTS_KEY, Found, Unusable


async def load_warm_start(client: ClusterClient, experiment: Experiment, source: str) -> ActionResult:
    """Looks up what is known from an earlier experiment; the first time, picks it out and keeps it.

    Returns:
        Its results; a message only where they were picked out now.

    Raises:
        ApiError: The API server could not be asked.
        MalformedObject: A Trial of the earlier experiment is none.
    """
    name = make_warm_start_name(experiment.name)
    kept = await read_if_there(client, paths.config_map(experiment.namespace, name))
    if kept is not None:
        return _read(experiment, kept)
    body = await read_if_there(client, paths.experiment(experiment.namespace, source))
    if body is None:
        return _report_waiting(source, "it does not exist")
    if not _has_ended(body):
        return _report_waiting(source, "it has not ended yet")
    found = warm_start.pick_observations(_get_spec(experiment), await _list_trials(client, body))
    owner = refer_to_experiment(experiment.name, experiment.uid)
    manifest = make_warm_start(experiment.name, owner, {"experiment": source, RESULTS_KEY: found.text})
    try:
        path = paths.config_maps(experiment.namespace)
        kept = await client.request("POST", path, params={"fieldManager": FIELD_MANAGER}, body=manifest)
    except ResourceExists:
        return ActionResult(ActionStatus.FAILED, f"{name} was made meanwhile; it is read next")
    result = _read(experiment, kept)
    return ActionResult(
        result.status, _summarize(source, found), result.reason, prior_observations=result.prior_observations
    )


def _read(experiment: Experiment, kept: Manifest) -> ActionResult:
    name = make_warm_start_name(experiment.name)
    if find_owner_uid(kept, EXPERIMENT_KIND) != experiment.uid:
        return ActionResult(ActionStatus.FAILED, f"a ConfigMap {name} with another owner already exists; delete it")
    try:
        prior = warm_start.read(_get_spec(experiment), (kept.get("data") or {}).get(RESULTS_KEY) or "")
    except Unusable as problem:
        return ActionResult(
            ActionStatus.FAILED, f"the ConfigMap {name} can't be read ({problem}); delete it to have it recreated"
        )
    return ActionResult(ActionStatus.DONE, prior_observations=prior)


def _report_waiting(source: str, why: str) -> ActionResult:
    message = f"waiting for experiment {source} (search.warmStart): {why}"
    return ActionResult(ActionStatus.FAILED, message, ExperimentReason.WAITING_FOR_EXPERIMENT)


def _has_ended(body: Manifest) -> bool:
    status = decoders.decode_experiment(body).status
    ends = (find_condition(status.conditions, type_) for type_ in (ConditionType.COMPLETE, ConditionType.FAILED))
    return any(end is not None and end.status == "True" for end in ends)


async def _list_trials(client: ClusterClient, source: Manifest) -> list[Trial]:
    """All Trials of an Experiment; not those of an earlier one of the same name."""
    metadata = source["metadata"]
    return [
        decoders.decode_trial(item)
        async for page in list_pages(client, paths.trials(metadata["namespace"]), select_experiment(metadata["name"]))
        for item in page["items"]
        if decoders.find_experiment_of_trial(item) == metadata["uid"]
    ]


def _summarize(source: str, found: Found) -> str:
    parts = [f"{len(found.observations)} results of experiment {source} are known to the search"]
    if found.passed_over:
        parts.append(f"{found.passed_over} trials have no value, or lie outside of this search space")
    if found.cut:
        parts.append(f"there was no room for the {found.cut} oldest")
    return "; ".join(parts)


def _get_spec(experiment: Experiment) -> ExperimentSpec:
    assert experiment.spec is not None  # its machine asks
    return experiment.spec
