"""What an evaluation may be combined with; tests/component/api/bad has more of what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from podtune.api.resources.experiment import ExperimentSpec
from tests.unit.tuning.manifests import experiment

POD: dict[str, Any] = {"containers": [{"name": "trial", "image": "scorer"}]}
TRAINING = {"metric": "loss", "mode": "min"}


def evaluated(evaluation: dict[str, Any] | None = None, **fields: Any) -> ExperimentSpec:
    given = {"template": {"spec": POD}, "trainingObjective": TRAINING, **(evaluation or {})}
    return experiment(**{"checkpoints": {"store": {"bucket": "bucket"}}, "evaluation": given, **fields})


def said(evaluation: dict[str, Any] | None = None, **fields: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        evaluated(evaluation, **fields)
    return str(refused.value)


def test_schedulers_see_the_trainings_objective() -> None:
    spec = evaluated(objective={"metric": "accuracy", "mode": "max", "missing": "lenient"})
    training = spec.training_objective
    assert (training.metric, training.mode, training.missing) == ("loss", "min", "lenient")
    assert experiment().training_objective == experiment().objective


def test_fifo_needs_no_metric_of_the_training() -> None:
    assert evaluated({"trainingObjective": None}).training_objective.metric == "accuracy"


def test_another_objective_is_no_metric_of_the_training_either() -> None:
    objective = {"metric": "accuracy", "mode": "max", "others": [{"metric": "loss", "mode": "min"}]}
    assert "'loss' is the objective, which only the evaluation reports" in said(objective=objective)


def test_a_rule_in_a_group_must_not_wait_for_the_objective() -> None:
    stop = {"trial": [{"all": [{"iterations": 3}, {"metrics": {"accuracy": 0.9}}]}]}
    assert "stop.trial[0].all[1].metrics: 'accuracy' is reported only by the evaluation" in said(stop=stop)


def test_the_evaluations_pod_must_not_see_the_store() -> None:
    store = {"store": {"bucket": "bucket", "credentialsSecret": "s3"}}
    pod = {"containers": [{**POD["containers"][0], "envFrom": [{"secretRef": {"name": "s3"}}]}]}
    assert "evaluation.template.spec.containers[0].envFrom" in said({"template": {"spec": pod}}, checkpoints=store)


def test_the_evaluations_pod_must_not_use_a_parameter_that_there_is_not() -> None:
    pod = {"containers": [{**POD["containers"][0], "args": ["$(PODTUNE_PARAM_nothing)"]}]}
    assert "evaluation.template.spec.containers[0].args" in said({"template": {"spec": pod}})


def test_either_template_makes_another_revision() -> None:
    others = {"containers": [{"name": "trial", "image": "other"}]}
    revisions = {
        evaluated().template_revision,
        evaluated({"template": {"spec": others}}).template_revision,
        evaluated(trialTemplate={"spec": others}).template_revision,
    }
    assert len(revisions) == 3
    assert experiment().template_revision == experiment().trial_template.revision
