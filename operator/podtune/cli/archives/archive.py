"""A whole experiment in one file: the Experiment, its Trials and what they have recorded, in the words of the API.

The file holds no secrets and nothing of the cluster that it comes from. Checkpoints are not in it: the Trials record
where they are in the bucket, under the UID of the Experiment that has stored them. A digest at its end tells a whole
file from one that was cut off, which might be read as an experiment of fewer trials.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podtune.api.names import ANNOTATION_AUTHOR, ANNOTATION_FORMER, API_VERSION, GROUP, TrialReason, TrialState
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import LedgerEntry, TrialSpec, TrialStatus
from podtune.api.resources.trial_numbers import read_index
from podtune.api.validation import InvalidSpec, parse_experiment
from podtune.cli.client.experiment_file import read_documents, write_document
from podtune.cli.client.former_folders import add_former_folder
from podtune.cli.errors import CliError
from podtune.kube.manifests import Manifest
from podtune.protocol.storage_job import StoragePurpose

KIND = "ExperimentArchive"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Archive:
    """An experiment that is on its way.

    Attributes:
        source: Namespace, name and uid of the Experiment that it was made of.
        trials: Its Trials: name, spec and status each, by their index; of one that a person has added, who that was.
        known: What it had learnt from an earlier experiment (search.warmStart): data of a ConfigMap.
        decisions: All decisions on its Trials, by their names, where they were asked for. An import does without.
    """

    source: Mapping[str, str]
    metadata: Manifest
    spec: Manifest
    status: Manifest
    trials: tuple[Manifest, ...]
    known: Mapping[str, str]
    decisions: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)

    def to_yaml(self) -> str:
        """The file."""
        return write_document(self.to_body())

    def to_body(self) -> Manifest:
        """What the file holds, with its digest."""
        body: Manifest = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "version": _VERSION,
            "source": dict(self.source),
            "experiment": {"metadata": self.metadata, "spec": self.spec, "status": self.status},
            "warmStart": dict(self.known),
            "trials": list(self.trials),
        }
        if self.decisions:
            body["decisions"] = {trial: list(entries) for trial, entries in self.decisions.items()}
        return seal(body)

    def rename(self, name: str) -> Archive:
        """The same under another name: that of each Trial begins with it."""
        before = self.source["name"]
        if name == before:
            return self
        names = {trial["name"]: f"{name}{trial['name'].removeprefix(before)}" for trial in self.trials}
        return Archive(
            {**self.source, "name": name},
            self.metadata,
            _rename_sources(self.spec, before, name, names),
            _replace_names(self.status, names),
            tuple(
                {
                    **trial,
                    "name": names[trial["name"]],
                    "spec": {**_rename_sources(trial["spec"], before, name, names), "experiment": name},
                    "status": _replace_names(trial["status"], names),
                }
                for trial in self.trials
            ),
            self.known,
            {names.get(trial, trial): _replace_names(list(found), names) for trial, found in self.decisions.items()},
        )


def seal(body: Mapping[str, Any]) -> Manifest:
    """What an archive holds, with its digest."""
    return {**body, "digest": _digest(body)}


def _digest(body: Mapping[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def make_archive(experiment: Manifest, trials: list[Manifest], known: Mapping[str, str]) -> Archive:
    """Makes an archive of what the API server has."""
    metadata = experiment["metadata"]
    kept = {kind: _select_foreign(metadata.get(kind) or {}) for kind in ("labels", "annotations")}
    if former := (metadata.get("annotations") or {}).get(ANNOTATION_FORMER):
        kept["annotations"][ANNOTATION_FORMER] = former
    kept["annotations"] = add_former_folder(kept["annotations"], metadata["uid"], metadata["name"])
    generation = metadata.get("generation", 1)
    return Archive(
        source={"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
        metadata={kind: entries for kind, entries in kept.items() if entries},
        spec=experiment["spec"],
        status=_build_experiment_status(experiment.get("status") or {}, generation),
        trials=tuple(
            sorted(
                map(_build_trial, trials),
                key=read_index,
            )
        ),
        known=known,
    )


def read_archive(path: Path) -> Archive:
    """Reads an archive, and whether this program can work with what is in it.

    Raises:
        CliError: It is none, of a later version, or damaged.
    """
    documents = read_documents(path, by_program=True)
    body = documents[0] if len(documents) == 1 else None
    if not isinstance(body, Mapping) or body.get("kind") != KIND:
        raise CliError(f"{path}: it is no {KIND}; `podtune export EXPERIMENT` makes one")
    if body.get("version") != _VERSION:
        raise CliError(
            f"{path}: its version is {body.get('version')!r}, this program knows {_VERSION}; use a later one"
        )
    try:
        if body.get("digest") != _digest({key: value for key, value in body.items() if key != "digest"}):
            raise ValueError("it is not what was exported, by its digest")
        return _read(body)
    except (InvalidSpec, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CliError(
            f"{path}: it is damaged: {' '.join(str(error).split())[:300]}; export the experiment once more"
        ) from error


def _read(body: Mapping[str, Any]) -> Archive:
    experiment, source = body["experiment"], body["source"]
    resource = {"metadata": {"name": source["name"]}, "spec": experiment["spec"]}
    parse_experiment(resource, UNKNOWN_POLICY)
    ExperimentStatus.model_validate(experiment["status"])
    for trial in body["trials"]:
        check_trial(trial, source["name"])
    metadata = {kind: check_texts(entries, kind) for kind, entries in (experiment.get("metadata") or {}).items()}
    # An earlier `podtune` did not list it.
    annotations = add_former_folder(metadata.get("annotations", {}), str(source["uid"]), str(source["name"]))
    return Archive(
        source={name: str(source[name]) for name in ("namespace", "name", "uid")},
        metadata={**metadata, "annotations": annotations},
        spec=experiment["spec"],
        status=experiment["status"],
        trials=tuple(body["trials"]),
        known=check_texts(body.get("warmStart") or {}, "warmStart"),
        decisions=_check_decisions(body.get("decisions") or {}),
    )


def check_trial(trial: Mapping[str, Any], experiment: str) -> None:
    """Checks that a Trial, as an archive has it, is one of the experiment's.

    Raises:
        ValueError: Its spec or status can't be used.
        LookupError: It is another experiment's.
    """
    spec = TrialSpec.model_validate(trial["spec"])
    TrialStatus.model_validate(trial["status"])
    if not isinstance(trial.get("author", ""), str):
        raise TypeError("author is no text")
    if trial["name"] != f"{experiment}-{read_index(trial)}" or spec.experiment != experiment:
        raise LookupError(f"trial {trial['name']!r} is none of {experiment!r}")


def _check_decisions(value: Mapping[str, Sequence[Manifest]]) -> Mapping[str, Sequence[Manifest]]:
    for entries in value.values():
        for entry in entries:
            LedgerEntry.model_validate(entry)
    return value


def check_texts(value: Any, name: str) -> dict[str, str]:
    """Checks that a value is a map of texts, and returns it.

    Raises:
        TypeError: It is not; the message begins with `name`.
    """
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
        raise TypeError(f"{name} is no map of texts")
    return dict(value)


def _select_foreign(entries: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations that are neither ours nor kubectl's."""
    own = (GROUP, f".{GROUP}", "kubectl.kubernetes.io")
    return {key: value for key, value in entries.items() if not key.partition("/")[0].endswith(own)}


def _build_experiment_status(status: Manifest, generation: int) -> Manifest:
    """The status as it will hold for a new object, whose generation is 1 and whose storage pods are none yet."""
    jobs = [
        job
        for job in (status.get("storage") or {}).get("jobs", ())
        if job["state"] in ("Done", "Failed") and job["purpose"] != StoragePurpose.SNAPSHOT  # it tells versions there
    ]
    storage = {"storage": {**status["storage"], "jobs": jobs}} if status.get("storage") else {}
    return {**_set_generation(status, generation), **storage}


def _build_trial(trial: Manifest) -> Manifest:
    author = (trial["metadata"].get("annotations") or {}).get(ANNOTATION_AUTHOR)
    body = {"name": trial["metadata"]["name"], "spec": trial["spec"], "status": _build_trial_status(trial)}
    return {**body, "author": author} if author else body


def _build_trial_status(trial: Manifest) -> Manifest:
    """The status of a trial without a pod; it always has a state, by which an import is seen to be whole."""
    status = _set_generation(trial.get("status") or {}, trial["metadata"].get("generation", 1))
    status.pop("pod", None)
    if status.get("state", TrialState.RUNNING) == TrialState.RUNNING:
        status |= {"state": str(TrialState.PENDING), "reason": str(TrialReason.QUEUED), "message": "imported"}
        status.pop("durableSeq", None)
    return status


def _set_generation(status: Manifest, generation: int) -> Manifest:
    def new(seen: int) -> int:
        return 1 if seen == generation else min(seen, 0)

    conditions = [
        {**c, "observedGeneration": new(c.get("observedGeneration", 0))} for c in status.get("conditions", ())
    ]
    changed = {"conditions": conditions} if conditions else {}
    return {**status, **changed, "observedGeneration": new(status.get("observedGeneration", -1))}


_NAMES = ("trial", "donor")
"""Fields of a status that hold the name of a Trial."""


def _rename_sources(value: Any, before: str, name: str, names: Mapping[str, str]) -> Any:
    """A part of a spec whose restoreFrom name Trials of the experiment by their other names."""
    if isinstance(value, list):
        return [_rename_sources(entry, before, name, names) for entry in value]
    if not isinstance(value, Mapping):
        return value
    renamed = {key: _rename_sources(entry, before, name, names) for key, entry in value.items()}
    source = renamed.get("restoreFrom")
    if isinstance(source, Mapping) and source.get("experiment", "") in ("", before):
        own = {"experiment": name} if source.get("experiment") else {}
        renamed["restoreFrom"] = {**source, **own, "trial": names.get(source["trial"], source["trial"])}
    return renamed


def _replace_names(value: Any, names: Mapping[str, str]) -> Any:
    """A part of a status with other names of Trials."""
    if isinstance(value, Mapping):
        return {
            key: names.get(entry, entry) if key in _NAMES and isinstance(entry, str) else _replace_names(entry, names)
            for key, entry in value.items()
        }
    return [_replace_names(entry, names) for entry in value] if isinstance(value, list) else value
