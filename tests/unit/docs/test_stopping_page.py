"""What docs/how-to/stop-when-enough.md says of rules is what they do; its manifests are parsed with all the others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from podtune.api.names import ExperimentReason
from podtune.api.tuning.stop import ExperimentCriterion, Stop, TrialCriterion
from podtune.tuning.stoppers.base import ExperimentProgress
from podtune.tuning.stoppers.factory import make_experiment_stopper, make_trial_stopper
from tests.unit.tuning.manifests import experiment

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "stop-when-enough.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SENTENCES = [text.strip() for language, text in BLOCKS if not language]
ROWS = re.findall(r"^\| `(\w+): (.*?)` \|.*?(?:\| `(\w+)` )?\|$", PAGE, re.MULTILINE)


def manifests() -> list[dict[str, Any]]:
    return [yaml.safe_load(text) for language, text in BLOCKS if language == "yaml"]


def test_the_sentences_are_those_of_the_rules() -> None:
    first = experiment(stop=manifests()[0]["stop"])
    stopped = make_trial_stopper(first).on_result(0, {"training_iteration": 100}, 0.0)
    ended = make_experiment_stopper(first).check(ExperimentProgress(0.0, best=0.991, best_trial="digits-7"))
    misspelt = make_trial_stopper(experiment(stop={"trial": [{"expression": "acuracy < 0.2"}]}))
    said = {stopped.message, ended.message, misspelt.find_problem(0, {"accuracy": 0.1})}
    assert said <= set(SENTENCES)


def test_every_criterion_has_a_row_and_every_row_is_one() -> None:
    names = [field.alias or name for model in (TrialCriterion, ExperimentCriterion) for name, field in fields(model)]
    assert sorted(name for name, _, _ in ROWS) == sorted(names)


def fields(model: type[TrialCriterion | ExperimentCriterion]) -> list[tuple[str, Any]]:
    return list(model.model_fields.items())


def test_the_reasons_are_those_that_the_rules_give() -> None:
    settings = {
        "plateau": {"top": 2},
        "cost": {"budget": 1, "perPodHour": 1},
        "failures": {"count": 1},
        "expression": "accuracy > 0",
    }
    much = ExperimentProgress(
        1e9, best=1.0, best_result={"accuracy": 1}, ended=9, errors=9, pod_seconds=1e9, gpu_seconds=1e9
    )
    of_experiments = [(name, value, reason) for name, value, reason in ROWS if reason and name != "plugin"]
    assert len(of_experiments) == 7, "the page about plugins has the reason of the other one"
    for name, value, reason in of_experiments:
        rule = {name: settings.get(name, yaml.safe_load(value) if value != "…" else None)}
        gpus = {"limits": {"nvidia.com/gpu": 1}}
        pod = {"spec": {"containers": [{"name": "trial", "image": "i", "resources": gpus}]}}
        stopper = make_experiment_stopper(experiment(stop={"experiment": [rule]}, trialTemplate=pod))
        for _ in range(2):
            stopper.on_trial_end(0.5)
        ending = stopper.check(much)
        assert ending.reason == ExperimentReason(reason)
        assert stopper.check(replace(much, elapsed=0)) is None or name != "time"


def test_the_trial_without_a_chance_gets_half_an_hour() -> None:
    stop = next(part["stop"] for part in manifests() if "any" in str(part))
    stopper = make_trial_stopper(
        experiment(stop=Stop.model_validate(stop).model_dump(by_alias=True, exclude_none=True))
    )
    stopper.on_result(0, {"accuracy": 0.1, "training_iteration": 3}, 600.0)
    assert stopper.find_deadline(0, 600.0) == 1800.0
    assert "accuracy 0.1" in stopper.on_time(0, 1800.0).message
