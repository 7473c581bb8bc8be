"""`podtune validate`: what is wrong, and in which line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import yaml

from podtune.api.document_checks import check_document
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.cli import main as cli
from tests.component.api.wrong_manifests import FINE, GOOD, WRONG, WrongManifest

TRIAL = """
apiVersion: podtune.dev/v1alpha1
kind: Trial
metadata: {name: digits-100000}
spec:
  experiment: digits
  parameters: {learning_rate: "0.01", hidden_units: "64", activation: relu}
"""


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_manifest_is_refused_by_field_and_remedy(wrong: WrongManifest) -> None:
    problems = check_document(wrong.build(), UNKNOWN_POLICY)
    named = [problem for problem in problems if problem.field.startswith(wrong.field)]
    assert any(wrong.words in problem.what for problem in named), [str(problem) for problem in problems]


@pytest.mark.parametrize("fine", FINE, ids=lambda fine: fine.name)
def test_what_only_looks_wrong_is_fine(fine: WrongManifest) -> None:
    assert check_document(fine.build(), UNKNOWN_POLICY) == []


def validate(capsys: pytest.CaptureFixture[str], *arguments: str | Path, expect: int = 1) -> list[str]:
    assert cli.main(["validate", *map(str, arguments)]) == expect
    return capsys.readouterr().out.splitlines()


def test_each_problem_of_each_document_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.yaml"
    text = GOOD.read_text().replace("maxTrials: 24", "maxTrials: 0").replace("keep: {count: 2", "keep: {count: none")
    file.write_text(f"# A comment.\n{text}---\n{TRIAL.replace('relu', 'gelu')}---\nkind: Secret\napiVersion: v1\n")
    lines = file.read_text().splitlines()
    limit, keep, parameter = validate(capsys, file)
    assert limit.startswith(
        f"{file}:{1 + lines.index('  search: {algorithm: tpe, maxTrials: 0, seed: 7}')}: spec.search."
    )
    assert limit.endswith("spec.search.maxTrials: 0 is too small; it must be at least 1")
    assert "spec.checkpoints.keep.count: 'none' is not a whole number" in keep
    line = 1 + next(number for number, line in enumerate(lines) if "gelu" in line)
    # The Experiment can't be read, so nothing is known of its parameters: only those two are told.
    assert parameter.startswith(f"{file}:{line - 5}: Trial digits-100000 is valid")


def test_a_trial_is_held_to_the_experiment_of_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f"{GOOD.read_text()}---{TRIAL.replace('relu', 'gelu')}")
    experiment_line, trial_line = sorted(validate(capsys, file), key=lambda line: "gelu" in line)
    assert experiment_line == f"{file}:1: Experiment digits is valid"
    assert "spec.parameters.activation: 'gelu' is not a value of the parameter" in trial_line


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (("digits-100000", "digits-7"), "metadata.name", "with a number from 100000 on"),
        (("experiment: digits", "experiment: digits\n  seed: 3"), "spec.seed", "is for the operator to set"),
        (('"0.01"', "0.01"), "spec.parameters.learning_rate", "put it in quotes"),
        (("parameters:", "parameter:"), "spec.parameter", "did you mean parameters?"),
    ],
)
def test_a_wrong_trial_is_refused(
    change: tuple[str, str], field: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trial.yaml"
    file.write_text(TRIAL.replace(*change))
    assert any(f" {field}: " in line and words in line for line in validate(capsys, file))


def test_a_field_that_is_there_twice_is_told_and_one_that_is_merged_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "twice.yaml"
    text = GOOD.read_text()
    file.write_text(text + "  maxConcurrentTrials: 8\n")
    assert cli.main(["validate", str(file)]) == 0  # as the API server has it
    note = f"note: {file}:{len(text.splitlines()) + 1}: spec.maxConcurrentTrials: is in this map twice"
    assert capsys.readouterr().err.startswith(note)
    store = "store: {bucket: podtune, prefix: demo"
    file.write_text(text.replace(store, "store: {<<: {prefix: other}, bucket: podtune, prefix: demo"))
    assert validate(capsys, file, expect=0) == [f"{file}:1: Experiment digits is valid"]


def test_what_an_administrator_may_have_allowed_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "account.yaml"
    file.write_text(
        GOOD.read_text().replace("      containers:", "      serviceAccountName: trainer\n      containers:")
    )
    assert cli.main(["validate", str(file)]) == 0
    assert "'trainer' is not allowed" in capsys.readouterr().err


def test_standard_input_is_read_and_programs_are_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GOOD.read_text().replace("mode: max", "mode: maximize")))
    answer = json.loads("\n".join(validate(capsys, "-", "-o", "json")))
    assert not answer["valid"]
    (item,) = answer["items"]
    assert (item["file"], item["kind"], item["name"]) == ("standard input", "Experiment", "digits")
    assert [problem["field"] for problem in item["problems"]] == ["spec.objective.mode"]
    assert item["problems"][0]["line"] == 5


def test_a_file_without_anything_of_ours_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secret.yaml"
    file.write_text("apiVersion: v1\nkind: Secret\n")
    assert cli.main(["validate", str(file)]) == 1
    assert "no Experiment or Trial in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("algorithm: tpe", "algorithm: gp"), "spec.search.algorithm: gp is for operators with the image"),
        (
            ("algorithm: tpe,", "algorithm: plugin, plugin: {name: acme},"),
            "spec.search.plugin: 'acme' has to be installed in the operator's image",
        ),
        (
            ("    trial:\n", "    experiment: [{plugin: {name: acme}}]\n    trial:\n"),
            "spec.stop.experiment[0].plugin: 'acme' has to be installed in the operator's image",
        ),
    ],
)
def test_what_some_operators_lack_is_noted(
    change: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(GOOD.read_text().replace(*change))
    assert cli.main(["validate", str(file)]) == 0
    assert said in capsys.readouterr().err


def test_a_space_that_no_grid_can_go_through_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = yaml.safe_load(GOOD.read_text())
    parents = [{"name": f"p{place}", "choice": {"values": [0, 1]}} for place in range(24)]
    children = [
        {"name": f"c{place}", "choice": {"values": [0, 1]}, "when": {f"p{place}": [1], f"p{(place * 7 + 1) % 24}": [1]}}
        for place in range(24)
    ]
    manifest["spec"] |= {
        "parameters": [*parents, *children],
        "search": {"algorithm": "grid", "maxTrials": 9},
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "i"}]}},
    }
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(manifest))
    (line,) = validate(capsys, file)
    assert "spec.search.algorithm: grid can't enumerate this space: the conditions (when)" in line
