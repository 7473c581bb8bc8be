"""What Artifact Hub shows of the charts follows from the resources, examples and the changelog."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.reference_pages.artifact_hub import ROOT, chart_metadata, list_changes
from podtune.api.resources.trial import TrialSpec
from podtune.api.resources.trial_numbers import parse_added_index
from podtune.api.validation import find_problems, parse_experiment

SHOWN = yaml.safe_load((ROOT / "charts" / "podtune" / "Chart.yaml").read_text())["annotations"]
EXAMPLES = {example["kind"]: example for example in yaml.safe_load(SHOWN["artifacthub.io/crdsExamples"])}

CHANGELOG = """\
# Changelog

## [Unreleased]

### Added

- Not yet.

## [1.1.0] - 2026-02-01

### Renamed

- Nothing.

### Added

- A button that
  does [much](docs/much.md); it is green. It may be red.
- Another, of `spec.x: y`.

### Fixed

- The button.

## [1.0.0] - 2026-01-01

### Added

- All.
"""


def test_changes_are_those_of_one_version_each_in_a_sentence() -> None:
    assert list(list_changes(CHANGELOG, "1.1.0")) == [
        {"kind": "added", "description": "A button that does much"},
        {"kind": "added", "description": "Another, of `spec.x: y`."},
        {"kind": "fixed", "description": "The button."},
    ]
    assert list(list_changes(CHANGELOG, "2.0.0")) == []


def test_what_is_shown_can_be_read() -> None:
    for path, text in chart_metadata().items():
        chart = yaml.safe_load(text)
        assert chart["name"] == path.parent.name
        shown = {name.removeprefix("artifacthub.io/"): value for name, value in chart["annotations"].items()}
        assert {entry["kind"] for entry in yaml.safe_load(shown["crds"])} == {"Experiment", "Trial"}
        for entry in yaml.safe_load(shown.get("changes", "[]")):
            assert set(entry) == {"kind", "description"}


def test_each_resource_has_an_example() -> None:
    kinds = [yaml.safe_load(path.read_text())["spec"]["names"]["kind"] for path in ROOT.glob("crds/*.yaml")]
    assert sorted(EXAMPLES) == sorted(kinds)


def test_the_experiment_runs_as_it_is_pasted(tmp_path: Path) -> None:
    experiment = EXAMPLES["Experiment"]
    assert find_problems(experiment) == []
    assert list(find_references(experiment)) == []
    [container] = experiment["spec"]["trialTemplate"]["spec"]["containers"]
    values = {f"PODTUNE_PARAM_{name}": value for name, value in EXAMPLES["Trial"]["spec"]["parameters"].items()}
    environment = {"PATH": os.environ["PATH"], "PODTUNE_DIR": str(tmp_path), **values}
    done = subprocess.run(container["command"], cwd=tmp_path, env=environment, timeout=60, check=False)
    assert done.returncode == 0, "it needs a file beside it"
    results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert results[-1][experiment["spec"]["objective"]["metric"]] < 1


def test_the_trial_is_one_that_a_person_may_add_to_the_experiment() -> None:
    experiment, trial = parse_experiment(EXAMPLES["Experiment"]), EXAMPLES["Trial"]
    spec = TrialSpec.model_validate(trial["spec"])
    assert spec.experiment == EXAMPLES["Experiment"]["metadata"]["name"]
    assert parse_added_index(trial["metadata"]["name"], spec.experiment) is not None
    assert spec.parameters.keys() == {parameter.name for parameter in experiment.parameters}


def find_references(value: object, path: str = "") -> Iterator[str]:
    """Where an object names a ConfigMap, a Secret or a claim: such fields have it in their names."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        if re.search("configmap|secret|claim", str(key), re.IGNORECASE):
            yield f"{path}.{key}"
        yield from find_references(below, f"{path}.{key}")


@pytest.mark.parametrize(
    "part",
    [
        {"volumes": [{"name": "script", "configMap": {"name": "shell"}}]},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
        {"containers": [{"envFrom": [{"secretRef": {"name": "keys"}}]}]},
        {"store": {"credentialsSecret": "podtune-s3"}},
    ],
)
def test_a_reference_is_found_wherever_it_is(part: dict[str, Any]) -> None:
    assert list(find_references(part))


def test_the_last_release_is_told_of_in_whole_sentences() -> None:
    changes = list(list_changes((ROOT / "CHANGELOG.md").read_text(), "0.2.0"))
    assert "added" in {change["kind"] for change in changes}
    assert all(len(change["description"]) > 20 for change in changes)
