"""What the page on steering the search says is what happens."""

from __future__ import annotations

import random
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune import trial
from podtune.api.names import ConditionType, ExperimentReason
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.search_checks import REPEATABLE
from podtune.api.validation import parse_experiment
from podtune.runner.search.session import SLOTS_AHEAD
from podtune.runner.search.warm_start import MAX_WARM_START_BYTES
from podtune.runner.settings import RunnerSettings
from tests.unit.runner.world.simulated_program import Program
from tests.unit.runner.world.simulation import Simulation

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "steer-the-search.md").read_text(encoding="utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
SPECS = [block for block in BLOCKS if "search" in block]


def with_spec(part: dict[str, Any], **more: Any) -> ExperimentSpec:
    spec = {
        "objective": {"metric": "loss", "mode": "min"},
        "parameters": [{"name": "x", "int": {"min": 1, "max": 50}}],
        "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "registry.example/train:1"}]}},
    }
    return parse_experiment({"metadata": {"name": "part"}, "spec": {**spec, **part, **more}})


def section(field: str) -> dict[str, Any]:
    """The manifest of the section that is about a field of `search`."""
    return next(spec for spec in SPECS if field in spec["search"])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(spec["search"]))
def test_every_manifest_is_accepted(spec: dict[str, Any]) -> None:
    with_spec(spec)


def test_the_first_configuration_is_run_and_the_known_one_is_not() -> None:
    part = section("initial")
    search = {**part["search"], "algorithm": "grid"}
    simulation = Simulation(with_spec({"search": search}), Program(steps=1)).run()
    tried = [int(made.spec.parameters["x"]) for made in simulation.api.trials.values()]
    assert tried[0] == 1
    assert 2 not in tried
    assert len(tried) == len(set(tried)) == search["maxTrials"]


def test_what_is_appended_is_run_next() -> None:
    begun, grown = [with_spec({"search": {**spec["search"], "algorithm": "grid"}}) for spec in SPECS[:2]]
    simulation = Simulation(begun, Program(steps=3)).run(1.0)
    made = len(simulation.api.trials)
    simulation.edit_spec(search=grown.search)
    simulation.run()
    trial = simulation.api.trials[f"e-{made}"]
    assert (trial.spec.parameters, trial.spec.proposal.source) == ({"x": "3"}, "Initial")


def test_the_repeats_make_as_many_configurations_as_the_page_says() -> None:
    simulation = Simulation(with_spec(section("repeats")), Program(steps=1)).run()
    trials = simulation.api.trials.values()
    assert len(trials) == 60
    assert len({made.spec.proposal.number for made in trials if made.spec.proposal is not None}) == 20
    assert len({made.spec.seed for made in trials}) == 3
    assert all(f"`{scheduler}`" in PAGE for scheduler in REPEATABLE)


def test_the_program_seeds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("PODTUNE_SEED", "2147483647")
    trial._sessions.clear()
    state = random.getstate()
    try:
        exec(compile(textwrap.dedent(program), "program", "exec"), {})
        drawn = random.random()
    finally:
        random.setstate(state)
        trial._sessions.clear()
    assert drawn == random.Random(2147483647).random()


def test_without_a_limit_time_ends_it() -> None:
    part = next(spec for spec in SPECS if spec["search"]["maxTrials"] == "unlimited")
    program = Program(steps=1, seconds=3600.0, further=lambda trial, step: {"loss": 0.5})
    simulation = Simulation(with_spec(part, maxConcurrentTrials=1), program).run()
    end = next(c for c in simulation.api.experiment.status.conditions if c.type == ConditionType.COMPLETE)
    assert (end.status, end.reason) == ("True", ExperimentReason.TIME_LIMIT)
    assert len(simulation.api.trials) > 1


def test_the_reasons_are_those_that_there_are() -> None:
    named = set(
        re.findall(r"^\| `(\w+)` \| ", PAGE.partition("ProposalsMade` is False with the reason |")[2], re.MULTILINE)
    )
    assert named == {
        ExperimentReason.SEARCH_SLOW,
        ExperimentReason.SEARCH_FAILED,
        ExperimentReason.NO_CONFIGURATION,
        ExperimentReason.WAITING_FOR_EXPERIMENT,
        ExperimentReason.TRIAL_NOT_MADE,
        ExperimentReason.TRIAL_LIMIT_REACHED,
    }


def test_the_numbers_are_those_of_the_code() -> None:
    decision = Path(__file__).resolve().parents[3] / "docs" / "decisions" / "0010-warm-start-in-a-configmap.md"
    assert f"{MAX_WARM_START_BYTES // 1024} KiB" in decision.read_text(encoding="utf-8")
    assert SLOTS_AHEAD == 16
    assert "every sixteen concurrent trials" in PAGE
    assert RunnerSettings().proposal_deadline == 120
    assert "within two minutes" in PAGE
