from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.cli import main as cli
from tests.unit.cli.golden_outputs import GOLDEN, OUTPUTS, manifest, stripped, write_manifests

Command = Callable[..., list[str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command where there is a manifest for each scheduler; the lines that it wrote."""
    monkeypatch.chdir(tmp_path)
    write_manifests(tmp_path)

    def run(line: str, expect: int = 0) -> list[str]:
        code = cli.main(shlex.split(line))
        written = capsys.readouterr()
        assert code == expect, written.err
        return (written.out if expect == 0 or "-o json" in line else written.err).splitlines()

    return run


def write(name: str, **changes: Any) -> None:
    Path(name).write_text(yaml.safe_dump(manifest("asha", **changes)), encoding="utf-8")


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_output_is_as_it_was(name: str, run: Command) -> None:
    """If it is meant to change: python -m tests.unit.cli.golden_outputs."""
    printed = stripped("".join(f"{line}\n" for line in run(OUTPUTS[name])))
    assert printed == (GOLDEN / name).read_text(encoding="utf-8")


class TestPlan:
    def test_yaml_says_what_json_says(self, run: Command) -> None:
        as_json, as_yaml = ("\n".join(run(f"plan asha.yaml -o {form}")) for form in ("json", "yaml"))
        assert yaml.safe_load(as_yaml) == json.loads(as_json)

    def test_names_all_problems_and_fails(self, run: Command) -> None:
        write("x.yaml", search={"algorithm": "random"}, maxConcurrentTrials=0)
        lines = run("plan x.yaml", expect=1)
        assert lines[0] == "asha: 2 problems"
        assert lines[1].startswith("  spec.search.maxTrials: is missing")
        assert lines[2] == "  spec.maxConcurrentTrials: 0 is too small; it must be at least 1"

    def test_names_them_for_programs(self, run: Command) -> None:
        write("x.yaml", maxConcurrentTrials=0)
        assert json.loads("".join(run("plan x.yaml -o json", expect=1))) == {
            "problems": ["spec.maxConcurrentTrials: 0 is too small; it must be at least 1"]
        }

    def test_a_price_makes_costs(self, run: Command) -> None:
        facts = json.loads("".join(run("plan asha.yaml --price-per-gpu-hour 3 -o json")))
        assert facts["cost"] == pytest.approx(3 * facts["gpuHours"])
        assert json.loads("".join(run("plan asha.yaml -o json")))["cost"] is None

    def test_more_gpus_a_trial_use_more_gpu_hours(self, run: Command) -> None:
        plans = []
        for count in (1, 4):
            limits = {"nvidia.com/gpu": count}
            pod = {"containers": [{"name": "trial", "image": "x", "resources": {"limits": limits}}]}
            write("x.yaml", trialTemplate={"spec": pod})
            plans.append(json.loads("".join(run("plan x.yaml -o json"))))
        assert plans[1]["gpuHours"] == pytest.approx(4 * plans[0]["gpuHours"])
        assert plans[1]["hours"] == pytest.approx(plans[0]["hours"])

    def test_says_what_it_takes_for_granted(self, run: Command) -> None:
        write("x.yaml", scheduler={"fifo": {}}, trialTemplate={"spec": {"containers": [{"name": "t", "image": "x"}]}})
        notes = "\n".join(line for line in run("plan x.yaml") if line.startswith("Note"))
        assert "nothing in the manifest ends a training: 27 iterations are taken for granted" in notes
        assert "the template asks for no GPU: each pod is counted as if it had one" in notes
        assert "nothing in the manifest" not in "\n".join(run("plan x.yaml --iterations 9"))

    def test_a_large_search_is_planned_from_a_part_of_it(self, run: Command) -> None:
        write("x.yaml", search={"algorithm": "random", "maxTrials": 60000, "seed": 1}, maxConcurrentTrials=64)
        facts = json.loads("".join(run("plan x.yaml --iterations 3 -o json")))
        assert facts["rungs"][0]["trials"] == 60000
        assert facts["notes"] == ["numbers follow from those of 600 trials"]

    def test_a_grid_ends_with_its_last_point(self, run: Command) -> None:
        axis = {"name": "x", "int": {"min": 1, "max": 5}}
        write("x.yaml", parameters=[axis], search={"algorithm": "grid", "maxTrials": 1000})
        assert json.loads("".join(run("plan x.yaml -o json")))["trials"] == 5

    def test_algorithms_that_need_optuna_are_planned_without_it(
        self, run: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        write("x.yaml", search={"algorithm": "cmaes", "maxTrials": 27})
        assert "cmaes" in run("plan x.yaml")[0]

    def test_a_trial_that_fits_nowhere_is_named(self, run: Command) -> None:
        pod = {"containers": [{"name": "trial", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
        write("x.yaml", trialTemplate={"spec": pod})
        assert run("plan x.yaml --gpus 4", expect=1) == ["error: a trial needs 8 GPUs, the cluster has 4; give it more"]


class TestManifest:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a: [", "x.yaml: not valid YAML"),
            (
                "kind: Experiment\napiVersion: kubeflow.org/v1beta1\n",
                "the file must contain exactly one Experiment (podtune.dev/v1alpha1)",
            ),
            ("---\n{e}\n---\n{e}\n", "it has 2 of them"),
            ("{kind: Experiment, apiVersion: podtune.dev/v1alpha1, metadata: 7}", "metadata must be a map"),
        ],
    )
    def test_a_file_that_is_none_is_refused(self, text: str, problem: str, run: Command) -> None:
        one = "{kind: Experiment, apiVersion: podtune.dev/v1alpha1}"
        Path("x.yaml").write_text(text.replace("{e}", one), encoding="utf-8")
        assert problem in run("plan x.yaml", expect=1)[0]

    def test_a_missing_file_is_named(self, run: Command) -> None:
        assert run("plan y.yaml", expect=1) == [
            "error: y.yaml: No such file or directory; name a file that can be read"
        ]

    def test_other_resources_in_the_file_are_passed_over(self, run: Command) -> None:
        text = Path("asha.yaml").read_text(encoding="utf-8")
        Path("x.yaml").write_text(f"kind: Secret\napiVersion: v1\n---\n{text}", encoding="utf-8")
        assert run("plan x.yaml") == run("plan asha.yaml")

    def test_it_may_come_on_standard_input(self, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = run("plan asha.yaml")
        with Path("asha.yaml").open(encoding="utf-8") as file:
            monkeypatch.setattr(sys, "stdin", file)
            assert run("plan -") == expected

    def test_what_an_administrator_may_allow_is_taken_for_allowed(self, run: Command) -> None:
        pod = {
            "serviceAccountName": "trainer",
            "priorityClassName": "batch",
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["data.example.com"]}],
            "containers": [{"name": "trial", "image": "x"}],
        }
        write("x.yaml", trialTemplate={"spec": pod})
        run("plan x.yaml")


class TestSimulate:
    def test_says_which_checkpoints_are_lost(self, run: Command) -> None:
        write("x.yaml", scheduler={"fifo": {}}, checkpoints={"store": {"bucket": "podtune"}, "drain": "30s"})
        command = "simulate x.yaml --iterations 2 --checkpoint-every 2"
        text = " ".join(" ".join(run(f"{command} --checkpoint-time 1m")).split())
        assert "Lost 27 attempts ended before the newest checkpoint was stored; asha-0: the checkpoint of" in text
        assert json.loads("".join(run(f"{command} --checkpoint-time 1m -o json")))["lostCheckpoints"] == 27
        assert not [line for line in run(f"{command} --checkpoint-time 20s") if line.startswith("Lost ")]

    def test_the_seed_decides(self, run: Command) -> None:
        prints = [
            json.loads("".join(run(f"simulate asha.yaml -o json {seed}")))["fingerprint"]
            for seed in ("", "--seed 1", "--seed 2")
        ]
        assert prints[0] == prints[1]  # the manifest's own
        assert prints[2] != prints[0]

    def test_generated_curves_can_be_simulated(self, run: Command) -> None:
        lines = run("simulate asha.yaml --function ackley --generate 9")
        assert lines[0] == "x0,x1,x2,x3,x4,x5,training_iteration,loss,seconds"
        assert len(lines) == 1 + 9 * 27
        Path("curves.csv").write_text("\n".join(lines), encoding="utf-8")
        facts = json.loads("".join(run("simulate asha.yaml --curves curves.csv -o json")))
        assert facts["optimum"] == min(float(line.split(",")[7]) for line in lines[1:])
        assert facts["regret"] == pytest.approx(facts["best"]["value"] - facts["optimum"])

    def test_a_shorter_training_is_simulated_as_such(self, run: Command) -> None:
        facts = json.loads("".join(run("simulate fifo.yaml --iterations 3 -o json")))
        assert facts["results"] == 27 * 3

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ("--function nosuch", "--function nosuch is not known; choose one of sphere, branin"),
            ("--function ackley --curves x.csv", "use either --curves or --function, not both"),
            ("--curves nosuch.csv", "nosuch.csv: No such file or directory"),
            ("--curves asha.yaml", "the curves lack the column x0"),
        ],
    )
    def test_curves_that_are_none_are_refused(self, options: str, problem: str, run: Command) -> None:
        assert problem in run(f"simulate asha.yaml {options}", expect=1)[0]

    def test_a_manifest_that_can_never_work_is_refused(self, run: Command) -> None:
        write("x.yaml", maxConcurrentTrials=0, podRetention="Never")
        line = run("simulate x.yaml", expect=1)[0]
        assert line.startswith("error: x.yaml: spec.maxConcurrentTrials: 0 is too small")
        assert line.endswith("(and 1 more; `podtune plan` names all)")

    def test_a_duration_that_is_none_is_a_mistake_of_usage(self, run: Command) -> None:
        line = run("simulate asha.yaml --pod-start 3x", expect=2)[0]
        assert "--pod-start: '3x' is not a duration; write it like 90s, 10m or 1h30m" in line

    def test_a_missing_package_is_named(self, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "optuna", None)
        for name in [name for name in sys.modules if name.startswith("podtune.tuning.searchers.")]:
            if not name.endswith((".base", ".random")):
                monkeypatch.delitem(sys.modules, name)
        write("x.yaml", search={"algorithm": "tpe", "maxTrials": 3})
        line = run("simulate x.yaml", expect=1)[0]
        assert line.startswith("error: the experiment needs the package optuna, which is not installed; pip install")
