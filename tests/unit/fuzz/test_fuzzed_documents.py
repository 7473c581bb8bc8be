"""What users write, and what the API server may hand out: manifests, curves, objects that others have touched."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podtune.api.tuning.search_space import Parameter
from podtune.api.validation import InvalidSpec, find_problems, parse_experiment
from podtune.cli.client.experiment_file import read_experiment_file
from podtune.cli.errors import CliError
from podtune.cluster import decoders
from podtune.simulation.curves.base import CurveError
from podtune.simulation.curves.table import read_curves
from tests.unit.fuzz.junk import assert_one_sentence, fuzzed, spoilt, values

ROOT = Path(__file__).parents[3]
GOOD = yaml.safe_load((ROOT / "tests" / "component" / "api" / "good.yaml").read_text())
PODS = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "tests/unit/cluster/pod_examples").glob("*.yaml"))]
SERVED = copy.deepcopy(GOOD) | {
    "metadata": {"name": "digits", "namespace": "ml", "uid": "uid", "resourceVersion": "7", "generation": 1},
    "status": {"state": "Running", "trials": {"total": 1}, "conditions": []},
}
TRIAL = {
    "metadata": {"name": "digits-0", "namespace": "ml", "uid": "uid", "resourceVersion": "7", "generation": 1},
    "spec": {"experiment": "digits", "index": 0, "parameters": {"learning_rate": "0.1"}},
    "status": {
        "state": "RUNNING",
        "attempt": 1,
        "iteration": 3,
        "checkpoint": {"step": 1, "uri": "s3://b/k/1", "digest": ""},
    },
}
PARAMETERS = [Parameter.model_validate({"name": "rate", "float": {"min": 0, "max": 1}})]
OBJECTIVE = parse_experiment(GOOD).objective
CELLS = st.one_of(
    st.text(max_size=8), st.floats().map(str), st.sampled_from(["", "nan", "inf", "1e999", '"', "\0", "1"])
)


@fuzzed
@given(spoilt(GOOD["spec"]))
def test_an_experiment_is_read_or_refused_with_reasons(spec: Any) -> None:
    document = {**GOOD, "spec": spec}
    try:
        parse_experiment(document)
    except InvalidSpec as error:
        assert_one_sentence(error)
        assert find_problems(document)


def test_characters_that_json_writes_in_two_halves_are_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "experiment.json"
    document = copy.deepcopy(GOOD)
    document["spec"]["trialTemplate"]["spec"]["containers"][0]["command"] = ["echo", "\U0001f600"]
    path.write_text(json.dumps(document))
    assert "\\ud83d\\ude00" in path.read_text()
    spec = read_experiment_file(path).spec
    assert spec.trial_template.spec["containers"][0]["command"][1] == "\U0001f600"


@fuzzed
@given(spoilt(GOOD) | values)
def test_a_manifest_on_disk_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, document: Any) -> None:
    path = tmp_path_factory.mktemp("manifest") / "experiment.yaml"
    path.write_text(json.dumps(document), encoding="utf-8", errors="surrogatepass")
    try:
        manifest = read_experiment_file(path)
    except CliError as error:
        assert_one_sentence(error)
        return
    assert (manifest.spec is None) == bool(manifest.problems)


@fuzzed
@given(spoilt({"spec": SERVED["spec"], "status": SERVED["status"]}).map(lambda body: SERVED | body))
def test_an_experiment_of_the_api_server_becomes_a_problem_at_worst(document: Any) -> None:
    try:
        experiment = decoders.decode_experiment(document)
    except decoders.MalformedObject as error:
        assert_one_sentence(error)
        return
    assert (experiment.spec is None) == bool(experiment.problem)


@fuzzed
@given(spoilt({"spec": TRIAL["spec"], "status": TRIAL["status"]}).map(lambda body: TRIAL | body))
def test_a_trial_of_the_api_server_is_read_or_passed_over(document: Any) -> None:
    try:
        decoders.decode_trial(document)
    except decoders.MalformedObject as error:
        assert_one_sentence(error)


@fuzzed
@given(st.sampled_from(PODS), st.data())
def test_a_pod_of_the_api_server_is_read_or_passed_over(pod: Any, data: st.DataObject) -> None:
    status = data.draw(spoilt(pod["status"]))
    metadata = data.draw(
        spoilt({"labels": pod["metadata"]["labels"], "ownerReferences": pod["metadata"]["ownerReferences"]})
    )
    try:
        decoders.decode_pod({**pod, "metadata": {**pod["metadata"], **metadata}, "status": status})
    except decoders.MalformedObject as error:
        assert_one_sentence(error)


@fuzzed
@given(
    st.lists(st.sampled_from(["rate", "training_iteration", "accuracy", "seconds", "other", ""]), max_size=6),
    st.lists(st.lists(CELLS, max_size=7), max_size=6),
)
def test_curves_are_read_or_refused(header: list[str], rows: list[list[str]]) -> None:
    lines = [",".join(header), *(",".join(row) for row in rows)]
    try:
        curves = read_curves(lines, PARAMETERS, OBJECTIVE, time="training_iteration", seconds=60.0)
    except CurveError as error:
        assert_one_sentence(error)
        return
    assert len(curves) > 0
