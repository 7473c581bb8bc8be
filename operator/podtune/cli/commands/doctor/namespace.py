"""Checks of the namespace of Experiments: their stores, images of their pods, and quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podtune.api.conditions import Condition, find_bad_conditions
from podtune.api.names import LABEL_EXPERIMENT, ConditionType
from podtune.api.pods.quantities import parse_quantity
from podtune.cli.client.resources import ExperimentView, get_experiment, list_experiments, list_trials
from podtune.cli.client.store_access import find_store_uri, open_experiment_store
from podtune.cli.commands.doctor.findings import Diagnosis, Health, Patient
from podtune.cli.commands.doctor.pods import NO_IMAGE, list_waits
from podtune.cli.errors import CliError, NoSuchObject
from podtune.kube import paths
from podtune.kube.errors import ResourceNotFound
from podtune.storage.errors import ClockSkewed, StoreError, Unreachable

_OF_EXPERIMENTS = {"labelSelector": LABEL_EXPERIMENT}
_CLOCKS = "clocks"
_POD_RESOURCES = ("pods", "count/pods", "requests.", "limits.")
"""Begin what a quota says of pods."""


def check_stores(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the stores of Experiments can be reached, and take their keys."""
    try:
        experiments = _read_experiments(patient)
    except NoSuchObject:
        raise
    except CliError as error:  # the definitions are missing
        yield Diagnosis("store", Health.UNKNOWN, str(error))
        return
    seen: list[Mapping[str, Any]] = []
    for experiment in experiments:
        store = (experiment.spec.get("checkpoints") or {}).get("store")
        if store and store not in seen:
            seen.append(store)
            yield from _check_store(patient, experiment, store)
    if not seen:
        none = f"{patient.experiment} has no" if patient.experiment else "no Experiment here has a"
        yield Diagnosis("store", Health.UNKNOWN, f"{none} checkpoints.store to look at")


def _read_experiments(patient: Patient) -> Sequence[ExperimentView]:
    """Those whose stores are looked at.

    Raises:
        NoSuchObject: There is no Experiment of the name that was given.
        CliError: The server does not know Experiments.
    """
    if not patient.experiment:
        return list_experiments(patient.api, patient.namespace)
    try:
        return [get_experiment(patient.api, patient.namespace, patient.experiment)]
    except NoSuchObject:
        list_experiments(patient.api, patient.namespace)  # a missing definition looks the same
        raise


def _check_store(patient: Patient, experiment: ExperimentView, store: Mapping[str, Any]) -> Iterator[Diagnosis]:
    subject = f"store of {experiment.name}"
    if (told := _find_store_trouble(patient, experiment)) is not None:
        about = _CLOCKS if told.reason == ClockSkewed.__name__ else subject
        yield Diagnosis(about, Health.WRONG, f"an agent says {told.reason}: {told.message}")
        return
    if secret := store.get("credentialsSecret"):
        try:
            patient.api.get(paths.secret(patient.namespace, secret))
        except ResourceNotFound:
            words = f"Secret {secret} is missing in namespace {patient.namespace}, so no pod can start; create it"
            yield Diagnosis(subject, Health.WRONG, words)
            return
    uri = find_store_uri(store)
    if volume := store.get("volume"):
        yield _check_claim(patient, subject, volume["claimName"])
        return
    try:
        with open_experiment_store(patient.api, experiment, patient.options) as opened:
            opened.store.check()
    except ClockSkewed as error:
        yield Diagnosis(_CLOCKS, Health.WRONG, f"{uri}: {error}")
    except Unreachable as error:
        words = f"{uri} can't be reached from here: {error}; if only the cluster knows that name, give --endpoint"
        yield Diagnosis(subject, Health.UNKNOWN, words)
    except StoreError as error:
        yield Diagnosis(subject, Health.WRONG, f"{uri}: {error}")
    except CliError as error:
        yield Diagnosis(subject, Health.UNKNOWN, str(error))
    else:
        yield Diagnosis(subject, Health.FINE, f"{uri} is there, and takes the key")


def _find_store_trouble(patient: Patient, experiment: ExperimentView) -> Condition | None:
    """What an agent has said of the store: agents see it from where it counts."""
    conditions: list[Condition] = list(experiment.status.conditions)
    for trial in list_trials(patient.api, patient.namespace, experiment.name):
        if not trial.has_ended:
            conditions += trial.status.conditions
    for condition in find_bad_conditions(conditions):
        if condition.type == ConditionType.CHECKPOINTS_STORED:
            return condition
    return None


def _check_claim(patient: Patient, subject: str, name: str) -> Diagnosis:
    try:
        claim = patient.api.get(paths.claim(patient.namespace, name))
    except ResourceNotFound:
        words = f"PersistentVolumeClaim {name} is missing in namespace {patient.namespace}; create it"
        return Diagnosis(subject, Health.WRONG, words)
    phase = (claim.get("status") or {}).get("phase", "")
    if phase == "Lost":
        return Diagnosis(subject, Health.WRONG, f"the volume of PersistentVolumeClaim {name} is lost; restore it")
    return Diagnosis(subject, Health.FINE, f"PersistentVolumeClaim {name} is there ({phase or 'Pending'})")


def check_images(patient: Patient) -> Iterator[Diagnosis]:
    """Whether the images of trials' pods can be pulled."""
    pods = patient.api.list_all(paths.pods(patient.namespace), _OF_EXPERIMENTS)
    refused: dict[str, str] = {}
    for pod in pods:
        for image, reason, message in list_waits(pod):
            if reason in NO_IMAGE:
                refused.setdefault(image, f"{message or reason} (pod {pod['metadata']['name']})")
    for image, why in refused.items():
        words = f"{image} can't be pulled: {why}; correct the image in trialTemplate, or its imagePullSecrets"
        yield Diagnosis("images", Health.WRONG, words)
    if not refused:
        found = f"{len(pods)} of {len(pods)} pods of trials have their images" if pods else "there is no pod of a trial"
        yield Diagnosis("images", Health.FINE if pods else Health.UNKNOWN, found)


def check_quotas(patient: Patient) -> Iterator[Diagnosis]:
    """Whether there is room for pods."""
    quotas = patient.api.list_all(paths.resource_quotas(patient.namespace))
    full = False
    for quota in quotas:
        status = quota.get("status") or {}
        used = status.get("used") or {}
        for resource, hard in (status.get("hard") or {}).items():
            if resource.startswith(_POD_RESOURCES) and _is_reached(used.get(resource, "0"), hard):
                full = True
                words = (
                    f"ResourceQuota {quota['metadata']['name']} is full: {used.get(resource)} of {hard} {resource}, so "
                    "new pods wait; end others, or have it raised"
                )
                yield Diagnosis("quota", Health.WRONG, words)
    if not full:
        yield Diagnosis("quota", Health.FINE, f"no ResourceQuota is full in namespace {patient.namespace}")


def _is_reached(used: str, hard: str) -> bool:
    amount, limit = parse_quantity(str(used)), parse_quantity(str(hard))
    return amount is not None and limit is not None and amount >= limit
