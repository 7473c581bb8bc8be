"""Which checkpoints are exported, where to, and what their model cards say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from podtune.api.names import DecisionKind
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.resources.trial import Checkpoint
from podtune.protocol.storage_job import ExportedCheckpoint, StoredTrial
from podtune.runner.records import Experiment
from podtune.runner.scheduling import evaluations
from podtune.runner.trial import parameters
from podtune.runner.trial.machine import TrialMachine

_VERSION = 1
"""Of the model card."""
BEST = "best"
"""Where the best trial's checkpoint goes, if no other's is exported."""
LINEAGE = (DecisionKind.PROMOTE, DecisionKind.EXPLOIT, DecisionKind.UNDO)
"""Decisions that made the weights what they are."""


def build_export_prefix(experiment: Experiment, spec: ExperimentSpec) -> str:
    """URI below which the experiment's exports go; empty where there are none."""
    export, store = spec.checkpoints.export, spec.checkpoints.store
    if export is None or store is None:
        return ""
    return export.to or store.build_prefix("exports", experiment.name).removesuffix("/")


def compute_settings_tag(experiment: Experiment, spec: ExperimentSpec) -> str:
    """Identifies what is requested: after a change another export is due."""
    assert spec.checkpoints.export is not None  # the caller has looked
    asked = f"{spec.checkpoints.export.trials} {build_export_prefix(experiment, spec)}"
    return hashlib.sha256(asked.encode()).hexdigest()[:12]


def list_wanted(
    experiment: Experiment, spec: ExperimentSpec, trials: Iterable[TrialMachine], best: TrialMachine | None
) -> list[StoredTrial]:
    """The checkpoints to export."""
    assert spec.checkpoints.export is not None  # the caller has looked
    only_best = spec.checkpoints.export.trials == "Best"
    found: list[StoredTrial] = []
    for trial in sorted(_list_chosen(spec, trials, best), key=lambda trial: trial.index):
        checkpoint = evaluations.find_representative(trial.saved, spec)
        if checkpoint is not None:
            exported = ExportedCheckpoint(
                uri=checkpoint.uri,
                digest=checkpoint.digest,
                folder=BEST if only_best else trial.name,
                is_best=trial is best,
                card=_build_card(experiment, spec, trial, checkpoint),
            )
            found.append(StoredTrial(trial.name, export=exported))
    return found


def is_any(spec: ExperimentSpec, trials: Iterable[TrialMachine], best: TrialMachine | None) -> bool:
    """Whether there is a checkpoint to export."""
    if spec.checkpoints.export is None:
        return False
    return any(trial.saved.checkpoints for trial in _list_chosen(spec, trials, best))


def _list_chosen(
    spec: ExperimentSpec, trials: Iterable[TrialMachine], best: TrialMachine | None
) -> Iterable[TrialMachine]:
    if spec.checkpoints.export is not None and spec.checkpoints.export.trials == "All":
        return trials
    return [best] if best is not None else []


def _build_card(experiment: Experiment, spec: ExperimentSpec, trial: TrialMachine, checkpoint: Checkpoint) -> str:
    """The facts about a model, except those that the storage pod finds in the bucket itself."""
    lineage = [
        {"decision": entry.action, "step": entry.step, "time": entry.time, "message": entry.message}
        for entry in trial.saved.ledger
        if entry.action in LINEAGE
    ]
    return json.dumps(
        {
            "version": _VERSION,
            "experiment": {"namespace": experiment.namespace, "name": experiment.name, "uid": experiment.uid},
            "trial": trial.name,
            "step": checkpoint.step,
            "objective": {
                "metric": spec.objective.metric,
                "mode": spec.objective.mode,
                "value": checkpoint.metric if trial.saved.evaluation is None else trial.saved.best_value,
                "best": trial.saved.best_value,
            },
            "parameters": _find_parameters(trial, checkpoint),
            "lineage": lineage,
        }
    )


def _find_parameters(trial: TrialMachine, checkpoint: Checkpoint) -> dict[str, str]:
    """The parameters that a checkpoint was taken with; empty where nobody remembers them."""
    known: tuple[dict[str, str], ...] = ({}, trial.saved.parameters, trial.saved.best_parameters)
    for changed in known:
        if parameters.compute_fingerprint(changed) == checkpoint.configuration:
            return dict(changed or trial.spec.parameters)
    return {}
