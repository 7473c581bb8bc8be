"""Whole experiments on this machine: the operator's runner with real processes, a few words of shell each."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.names import TrialState
from podtune.api.pods.template_policy import UNKNOWN_POLICY
from podtune.api.validation import parse_experiment
from podtune.cli.archives.archive import read_archive
from podtune.cli.client.experiment_file import read_with_config_maps
from podtune.cli.client.resources import TrialView
from podtune.cli.errors import CliError
from podtune.client.experiment import Experiment
from podtune.local.adaptation import adapt
from podtune.local.local_run import LocalRun
from podtune.local.starting import resume_run, start_run
from podtune.simulation.curves.base import Curves, LearningCurve
from podtune.simulation.simulation import Simulation
from podtune.tuning.searchers.base import Configuration
from tests.unit.local.experiments import COUNT, FOREVER, STORE, follow, make_manifest, make_run

DIGITS = Path("examples/digits/experiment.yaml")


def _list_trials(run: LocalRun) -> list[TrialView]:
    return sorted(run.progress.trials.values(), key=lambda trial: trial.index)


def _read_starts(path: Path, trial: str) -> list[str]:
    """What each attempt of a trial went on from."""
    return (path / f"{trial}.txt").read_text().splitlines()


def test_an_experiment_runs_to_its_end_with_its_files_and_output(tmp_path: Path) -> None:
    script = 'echo "x is $PODTUNE_PARAM_x"; cat "$PODTUNE_DIR/parameters.json"; echo done >&2'
    pattern = {"stdout": {"pattern": "x is (?P<score>[0-9.e-]+)"}}
    run = make_run(make_manifest(script, trials=2, concurrent=2, results=pattern), tmp_path)
    follow(run)
    assert run.progress.outcome == (0, "all 2 trials are done")
    for trial in _list_trials(run):
        assert trial.state == TrialState.TERMINATED
        assert float(trial.status.last_result["score"]) == float(trial.proposed["x"])
        output = (tmp_path / f"run/attempts/{trial.name}-1/output.log").read_text()
        assert json.loads(output.splitlines()[1].removesuffix("done")) == {"x": float(trial.proposed["x"])}
    assert [trial["name"] for trial in read_archive(run.write_archive()).trials] == ["tiny-0", "tiny-1"]


def test_a_failed_trial_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    failing = 'if [ $i = 2 ] && [ "$PODTUNE_ATTEMPT" = 1 ]; then echo no luck; exit 7; fi'
    failures = {"maxFailures": 1, "backoff": {"initial": "1s", "max": "1s"}}
    run = make_run(make_manifest(COUNT % failing, trials=1, checkpoints=STORE, failures=failures), tmp_path)
    follow(run)
    (trial,) = _list_trials(run)
    assert (trial.state, trial.status.failures, trial.status.attempt) == (TrialState.TERMINATED, 1, 2)
    assert _read_starts(tmp_path, "tiny-0") == ["from 0", "from 2"]
    kept = [run.locate(checkpoint.uri) for checkpoint in trial.status.checkpoints]
    assert [(Path(uri) / "data/step").read_text() for uri in kept] == ["3\n", "4\n"]
    assert not (tmp_path / "run/attempts/tiny-0-2/shared/checkpoints").exists()


def test_a_program_that_is_not_there_fails_its_trial_for_good(tmp_path: Path) -> None:
    manifest = make_manifest(trials=1)
    manifest["spec"]["trialTemplate"]["spec"]["containers"][0]["command"] = ["no-such-program"]
    run = make_run(manifest, tmp_path)
    follow(run)
    (trial,) = _list_trials(run)
    assert (trial.state, trial.status.attempt) == (TrialState.ERROR, 1)
    assert "no-such-program" in trial.status.message


def train(config: dict[str, Any]) -> dict[str, float]:
    """A function as somebody writes it in a notebook."""
    return {"score": config["x"]}


def test_a_function_that_travels_with_its_experiment_runs_here_too(tmp_path: Path) -> None:
    parameters = {"x": {"float": {"min": 0, "max": 1}}}
    made = Experiment.from_function(
        train,
        name="tiny",
        metric="score",
        mode="max",
        parameters=parameters,
        image="train:1",
        max_trials=1,
        store={"bucket": "models"},
    )
    (tmp_path / "tiny.yaml").write_text(made.to_yaml())
    name, resource, config_maps = read_with_config_maps(tmp_path / "tiny.yaml")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    run, _ = start_run(name, resource, environ=environ, directory=tmp_path / "run", config_maps=config_maps)
    follow(run)
    (trial,) = _list_trials(run)
    assert float(trial.status.last_result["score"]) == float(trial.proposed["x"])
    logs = [path.read_text() for path in (tmp_path / "run").rglob("agent.log")]
    assert logs
    assert not any("function not stored" in log for log in logs), "the run has it, so no agent has to"


def test_a_program_whose_python_has_no_podtune_gets_a_copy_as_in_a_pod(tmp_path: Path) -> None:
    code = "from podtune import trial; trial.report({'score': trial.params()['x']}); print(trial.__file__)"
    manifest = make_manifest(f'exec "{sys.executable}" -S -c "{code}"', trials=1)
    [container] = manifest["spec"]["trialTemplate"]["spec"]["containers"]
    container["env"] = [{"name": "PYTHONPATH", "value": "/app:/podtune/site-packages"}]
    run = make_run(manifest, tmp_path)
    follow(run)
    (trial,) = _list_trials(run)
    assert float(trial.status.last_result["score"]) == float(trial.proposed["x"])
    attempt = tmp_path / "run/attempts/tiny-0-1"
    copy = attempt / "shared/site-packages"
    assert (attempt / "output.log").read_text() == f"{copy}/podtune/trial/__init__.py\n"
    assert not copy.exists(), "nobody needs it any more"


def test_trials_that_are_paused_at_a_rung_are_promoted_from_their_checkpoints(tmp_path: Path) -> None:
    promotion = {"timeAttribute": "step", "maxTime": 4, "gracePeriod": 1, "reductionFactor": 2}
    fields: dict[str, Any] = {"checkpoints": STORE, "scheduler": {"ashaPromotion": promotion}}
    run = make_run(make_manifest(COUNT % ":", trials=4, **fields), tmp_path)
    follow(run)
    assert run.progress.outcome == (0, "all 4 trials are done")
    trials = _list_trials(run)
    actions = {trial.name: [entry.action for entry in trial.status.ledger] for trial in trials}
    waited = [trial for trial in trials if "PAUSE PROMOTE" in " ".join(actions[trial.name])]
    assert waited
    for trial in waited:
        first, *later = _read_starts(tmp_path, trial.name)
        assert first == "from 0"
        assert later
        assert "from 0" not in later


def test_gpus_are_dealt_out_and_named_to_programs(tmp_path: Path) -> None:
    script = (
        'echo "$CUDA_VISIBLE_DEVICES" > "$PODTUNE_TRIAL.gpu"; echo "{\\"score\\": 1}" >> "$PODTUNE_DIR/results.jsonl"'
    )
    manifest = make_manifest(script, trials=2, concurrent=2)
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 2}}
    with pytest.raises(CliError, match=r"a trial asks for 2 GPUs, this machine has 1; .*--gpus"):
        make_run(manifest, tmp_path, gpus=1)
    assert not (tmp_path / "run").exists()
    follow(make_run(manifest, tmp_path, gpus=3))
    assert {(tmp_path / f"tiny-{index}.gpu").read_text() for index in range(2)} == {"0,1\n"}


def test_without_gpus_none_are_counted_as_used(tmp_path: Path) -> None:
    manifest = make_manifest()
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": 2, "memory": "1Gi"}}
    run, notes = start_run("tiny", manifest, environ={"CUDA_VISIBLE_DEVICES": ""}, directory=tmp_path / "run")
    run.close()
    assert notes == ("no GPU is found here (nvidia-smi); trials run without the 2 that each asks for",)
    written = json.loads((tmp_path / "run" / "experiment.json").read_text())
    (container,) = written["spec"]["trialTemplate"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"memory": "1Gi"}}


def test_an_interrupted_run_pauses_and_goes_on_where_it_was(tmp_path: Path) -> None:
    waiting = f'if [ $i = 2 ] && [ "$PODTUNE_ATTEMPT" = 1 ]; then {FOREVER}; fi'
    run = make_run(make_manifest(COUNT % waiting, trials=1, checkpoints={**STORE, "requestTimeout": "1s"}), tmp_path)
    interrupted = False

    def interrupt_once(run: LocalRun) -> bool:
        nonlocal interrupted
        if not interrupted and any(
            trial.status.last_result.get("step") == "2" for trial in run.progress.trials.values()
        ):
            interrupted = True
            run.interrupt()
        return False

    follow(run, interrupt_once)
    assert run.progress.outcome is None
    assert [trial.state for trial in _list_trials(run)] == [TrialState.PAUSED]
    again = resume_run(tmp_path / "run", environ=os.environ)
    follow(again)
    (trial,) = _list_trials(again)
    assert (trial.state, trial.status.failures, trial.status.disruptions) == (TrialState.TERMINATED, 0, 0)
    assert _read_starts(tmp_path, "tiny-0") == ["from 0", "from 2"]


class _Points(Curves):
    """One result a trial, as the program reports it."""

    optimum = None

    def build_curve(self, configuration: Configuration, trial: int) -> LearningCurve:
        value = configuration["learning_rate"]
        assert isinstance(value, float)
        return _Point(value)


class _Point(LearningCurve):
    length = 1

    def __init__(self, value: float) -> None:
        self.value = value

    def compute_metrics(self, iteration: int) -> Mapping[str, float]:
        return {"accuracy": self.value, "epoch": 27}

    def compute_seconds(self, iteration: int) -> float:
        return 1.0


def test_one_trial_at_a_time_is_proposed_what_the_operators_runner_proposes_in_the_simulation(tmp_path: Path) -> None:
    manifest: dict[str, Any] = yaml.safe_load(DIGITS.read_text())
    manifest["spec"] |= {"maxConcurrentTrials": 1, "failures": {}}
    manifest["spec"]["search"] |= {"maxTrials": 5, "tpe": {"startupTrials": 2}}
    report = 'echo "{\\"epoch\\": 27, \\"accuracy\\": $PODTUNE_PARAM_learning_rate}" >> "$PODTUNE_DIR/results.jsonl"'
    command = ["sh", "-c", report]
    run, _ = start_run("digits", manifest, environ=os.environ, command=command, directory=tmp_path / "run")
    follow(run)
    spec = parse_experiment(adapt(manifest, command, {}).resource, UNKNOWN_POLICY)
    simulated = Simulation(spec, _Points(), name="digits").run()
    assert [trial.proposed for trial in _list_trials(run)] == [trial.spec.parameters for trial in simulated.trials]
    assert len(simulated.trials) == 5


POST_STATUS = """
import json, os, urllib.request
token = open(os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]).read()
metrics = [{"name": "eval_loss", "value": os.environ["PODTUNE_PARAM_x"]}, {"name": "current_step", "value": "7"}]
urllib.request.urlopen(urllib.request.Request(
    os.environ["KUBEFLOW_TRAINER_SERVER_URL"],
    data=json.dumps({"trainerStatus": {"metrics": metrics}}).encode(),
    headers={"Authorization": f"Bearer {token}"},
    method="POST",
), timeout=60)
"""


def test_trials_side_by_side_post_to_endpoints_of_their_own(tmp_path: Path) -> None:
    spec: dict[str, Any] = {
        "results": {"huggingFace": {}},
        "objective": {"metric": "eval_loss", "mode": "min"},
    }
    manifest = make_manifest(trials=2, concurrent=2, **spec)
    manifest["spec"]["trialTemplate"]["spec"]["containers"][0]["command"] = [sys.executable, "-c", POST_STATUS]
    run = make_run(manifest, tmp_path)
    follow(run)
    assert run.progress.outcome == (0, "all 2 trials are done")
    for trial in _list_trials(run):
        assert float(trial.status.last_result["eval_loss"]) == float(trial.proposed["x"])
        assert trial.status.last_result["current_step"] == "7"


def test_what_a_program_serves_to_prometheus_is_scraped(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    manifest = make_manifest(
        trials=1,
        results={"scrape": {"port": port, "timeAttribute": "epoch"}},
        objective={"metric": "value/split/val", "mode": "max"},
    )
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    container["command"] = [sys.executable, str(Path("e2e/programs/reporting/scraped.py").resolve())]
    container["env"] = [{"name": "BASE", "value": "$(PODTUNE_PARAM_x)"}, {"name": "PORT", "value": str(port)}]
    run = make_run(manifest, tmp_path)
    follow(run)
    (trial,) = _list_trials(run)
    assert float(trial.status.last_result["value/split/val"]) == float(trial.proposed["x"]) - 0.25
    assert (trial.status.last_result["epoch"], trial.status.iteration) == ("3", 3)


def test_what_a_program_logs_to_weights_and_biases_is_read(tmp_path: Path) -> None:
    manifest = make_manifest(
        trials=2, concurrent=2, results={"wandb": {}}, objective={"metric": "val/loss", "mode": "min"}
    )
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    program = str(Path("e2e/unchanged/scripts/wandb_offline_file.py").resolve())
    container["command"] = [sys.executable, program, "$(PODTUNE_PARAM_x)"]
    run = make_run(manifest, tmp_path)
    follow(run)
    assert run.progress.outcome == (0, "all 2 trials are done")
    for trial in _list_trials(run):
        last = trial.status.last_result
        assert float(last["val/loss"]) == pytest.approx((1 - float(trial.proposed["x"])) ** 4)
        assert (last["step"], last["epoch"], trial.status.iteration) == ("3", "4", 4)


def test_what_a_program_logs_for_tensorboard_is_read(tmp_path: Path) -> None:
    objective = {"metric": "validation/epoch_value", "mode": "max"}
    manifest = make_manifest(
        trials=2, concurrent=2, results={"tensorBoard": {"directory": "logs/*"}}, objective=objective
    )
    container = manifest["spec"]["trialTemplate"]["spec"]["containers"][0]
    program = str(Path("e2e/programs/reporting/event_files.py").resolve())
    container["command"] = [sys.executable, program, "$(PODTUNE_DIR)/logs/today"]
    container["env"] = [{"name": "BASE", "value": "$(PODTUNE_PARAM_x)"}]
    run = make_run(manifest, tmp_path)
    follow(run)
    assert run.progress.outcome == (0, "all 2 trials are done")
    for trial in _list_trials(run):
        assert float(trial.status.last_result["validation/epoch_value"]) == pytest.approx(
            float(trial.proposed["x"]) - 0.25
        )
        assert (trial.status.last_result["step"], trial.status.iteration) == ("2", 3)
