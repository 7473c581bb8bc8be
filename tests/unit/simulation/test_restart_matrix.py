"""An operator that is killed anywhere goes on as if it had not been, with every searcher and every scheduler.

For each pair a run is recorded. Then it is run again many times (`make test-long`: a hundred), each time cut after
another event: the operator is made anew of what the Trials record, and has to make the next proposal and the next
decision that the uncut run made. Some of the runs go on to their end, and have to be the uncut run whole; there, the
quick tests cut a run several times, and the long ones once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from podtune.api.names import ConditionType
from podtune.api.resources.experiment import ExperimentSpec, ExperimentStatus
from podtune.api.resources.trial import TrialSpec, TrialStatus
from podtune.api.tuning.compatibility import list_valid_pairs
from podtune.protocol.storage_job import StoragePurpose
from podtune.runner.records import Trial
from podtune.runner.settings import RunnerSettings
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult
from tests.unit.runner.world.examples import are_all_run, draw
from tests.unit.tuning.manifests import experiment

CUTS = draw(100)
WHOLE = 5
"""So many of the cut runs go on to their end, or one more."""
LENGTH = 9
SPACE: list[dict[str, Any]] = [
    {"name": "rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "width", "int": {"min": 16, "max": 256, "step": 16}},
    {"name": "kind", "choice": {"values": ["relu", "tanh"]}},
]
FINITE_SPACE: list[dict[str, Any]] = SPACE[1:]
SEARCHERS: dict[str, dict[str, Any]] = {
    "grid": {"grid": {"points": 3}},
    "tpe": {"tpe": {"startupTrials": 3}},
    "cmaes": {"cmaes": {"populationSize": 4}},
    "nsga2": {"nsga2": {"populationSize": 3}},
    "nsga3": {"nsga3": {"populationSize": 3}},
    "gp": {"gp": {"startupTrials": 4}},
    "bohb": {"bohb": {"minPoints": 1}},
}
"""Settings with which a search of a few trials comes to learn something; of the others, the defaults."""
SCHEDULERS: dict[str, dict[str, Any]] = {
    "asha": {"maxTime": LENGTH, "reductionFactor": 3, "brackets": 2},
    "ashaPromotion": {"maxTime": LENGTH, "reductionFactor": 3},
    "hyperband": {"maxTime": LENGTH, "reductionFactor": 3},
    "bohb": {"maxTime": LENGTH, "reductionFactor": 3},
    "median": {"gracePeriod": 2, "minSamples": 2, "minTime": 5, "softStop": True},
    "pbt": {"interval": 3},
    "pb2": {"interval": 3},
}
PAIRS = [
    (algorithm, scheduler)
    for algorithm, scheduler in list_valid_pairs()
    if "plugin" not in (algorithm, scheduler) and (algorithm != "gp" or scheduler in ("fifo", "asha", "hyperband"))
]
"""All that go together. A proposal of gp takes long, so it is tried with three schedulers."""
CONDITIONAL: list[dict[str, Any]] = [
    {"name": "optimizer", "choice": {"values": ["sgd", "adam"]}},
    {"name": "rate", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "momentum", "float": {"min": 0, "max": 0.99}, "when": {"optimizer": ["sgd"]}},
    {"name": "warmup", "expression": "100 * rate"},
]
NAMES = {name for pair in PAIRS for name in pair}
SAMPLE = {next(pair for pair in reversed(PAIRS) if name in pair) for name in NAMES}
"""A pair for each searcher and for each scheduler; the others, which take minutes, are left to the long tests."""
INITIAL = {"rate": 0.01, "width": 64, "kind": "tanh"}
WARM: dict[str, Any] = {"reuse": True, "spec": {"containers": [{"name": "trial", "image": "none"}]}}
EVALUATION: dict[str, Any] = {
    "template": {"spec": {"containers": [{"name": "scorer", "image": "none"}]}},
    "trainingObjective": {"metric": "loss", "mode": "min"},
    "maxFailures": 50,
}
VARIANTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "median, stopping": ("random", "median", {"scheduler": {"softStop": False}}),
    "pbt, in step": ("random", "pbt", {"scheduler": {"synchronous": True}}),
    "ashaPromotion, two brackets": ("random", "ashaPromotion", {"scheduler": {"brackets": 2}}),
    "two objectives": (
        "nsga2",
        "fifo",
        {"objective": {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]}},
    ),
    "repeats": ("tpe", "asha", {"search": {"repeats": 2}}),
    "conditions": ("tpe", "asha", {"parameters": CONDITIONAL, "constraints": ["rate < 0.09"]}),
    "initial": (
        "cmaes",
        "fifo",
        {"search": {"initial": [{"parameters": {"rate": 0.01, "width": 64, "kind": "tanh"}}]}},
    ),
    "stopped trials that keep nothing": (
        "tpe",
        "asha",
        {"checkpoints": {"store": {"bucket": "bucket"}, "keep": {"stopped": 0, "ofExperiment": {"best": 2}}}},
    ),
    "warm pods": ("tpe", "asha", {"trialTemplate": WARM}),
    "warm pods that pause": ("random", "hyperband", {"trialTemplate": WARM}),
    "warm pods that clone": ("random", "pbt", {"trialTemplate": WARM}),
    "evaluation": ("tpe", "fifo", {"evaluation": EVALUATION}),
    "evaluation of the best checkpoint": (
        "tpe",
        "asha",
        {
            "evaluation": {**EVALUATION, "checkpoint": "best"},
            "checkpoints": {"store": {"bucket": "bucket"}, "keep": {"count": 3, "by": "best", "stopped": 0}},
        },
    ),
    "evaluation after rungs": ("random", "hyperband", {"evaluation": EVALUATION}),
    "evaluation of clones": ("random", "pbt", {"evaluation": EVALUATION}),
    "evaluation of gangs": (
        "random",
        "asha",
        {
            "evaluation": EVALUATION,
            "trialTemplate": {"replicas": 2, "spec": {"containers": [{"name": "trial", "image": "none"}]}},
        },
    ),
    "evaluation of repeats, two objectives": (
        "nsga2",
        "fifo",
        {
            "evaluation": EVALUATION,
            "search": {"repeats": 2},
            "objective": {"metric": "accuracy", "mode": "max", "others": [{"metric": "latency", "mode": "min"}]},
        },
    ),
    "another trial's checkpoint": (
        "tpe",
        "asha",
        {
            "search": {
                "initial": [
                    {"parameters": INITIAL},
                    {"parameters": {**INITIAL, "rate": 0.02}, "restoreFrom": {"trial": "simulated-0"}},
                ]
            }
        },
    ),
}
"""Further settings: a searcher, a scheduler, and what else the manifest says."""
ROUGH = ClusterModel(gpus=3, checkpoint=0, crashes_per_hour=1.5, disruptions_per_hour=1.5)
"""Checkpoints take no time: an operator that comes back waits for none that a stopped trial is storing."""
SLOW = ClusterModel(checkpoint=150, crashes_per_hour=1.5, disruptions_per_hour=1.5)
"""A checkpoint takes longer than two iterations: donors are ranked before they have stored any."""
PROMPT = RunnerSettings(
    result_debounce=0,
    checkpoint_debounce=0,
    pending_debounce=0,
    starting_debounce=0,
    running_debounce=0,
    first_result_debounce=0,
)
"""Everything is written at once: what an operator that was killed had still to write is written later, if at all, and
what rests on it happens at another time then."""


def make_spec(algorithm: str, scheduler: str, changes: Mapping[str, Any]) -> ExperimentSpec:
    fields: dict[str, Any] = {
        "parameters": FINITE_SPACE if algorithm == "bruteForce" else SPACE,
        "maxConcurrentTrials": 4,
        "checkpoints": {"store": {"bucket": "bucket"}},
        "failures": {"maxFailures": 100},
        **changes,
    }
    search = {"algorithm": algorithm, "maxTrials": 12, "seed": 7, **SEARCHERS.get(algorithm, {})}
    fields["search"] = {**search, **changes.get("search", {})}
    fields["scheduler"] = {scheduler: {**SCHEDULERS.get(scheduler, {}), **changes.get("scheduler", {})}}
    return experiment(**fields)


def make_simulation(spec: ExperimentSpec, model: ClusterModel = ROUGH) -> Simulation:
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["styblinski-tang"], spec.parameters, spec.objective, iterations=LENGTH, seconds=60, seed=3
    )
    return Simulation(spec, curves, model, seed=5, settings=PROMPT)


def progress(outcome: SimulationResult) -> tuple[int, int]:
    """How many proposals and decisions there have been."""
    return len(outcome.trials), len(outcome.decisions) + len(outcome.starts)


def cut_here(simulation: Simulation, until: SimulationResult) -> SimulationResult:
    """How it goes on if the operator is killed now, up to the next proposal and the next decision.

    Args:
        simulation: The run.
        until: How the uncut run ended: where it made no further proposal or decision, none is waited for.
    """
    fork = simulation.fork()
    wanted = [min(now + 1, last) for now, last in zip(progress(fork.outcome), progress(until), strict=True)]
    while not fork.is_over and any(now < then for now, then in zip(progress(fork.outcome), wanted, strict=True)):
        fork.step()
    return fork.outcome


def check_whole_runs(
    make: Callable[[], Simulation],
    cuts: Collection[int],
    check: Callable[[SimulationResult], None],
    watch: Callable[[Simulation], object] = lambda _: None,
    *,
    runs: int = 2,
) -> None:
    """Cuts runs that go on to their end: each at every so many of the cuts, or each at one where all are asked for.

    Args:
        make: Sets up the run.
        cuts: After how many events it is cut.
        check: Looks at how a cut run has ended.
        watch: It is cut wherever this changes, too.
        runs: So many share the cuts.
    """
    for number in range(1 if are_all_run() else runs):
        again, met = make(), 0
        while not again.is_over:
            before = watch(again)
            again.step()
            if again.events in cuts or watch(again) != before:
                met += 1
                if are_all_run():
                    check(again.fork().run())
                elif met % runs == number:
                    again.restart()
        check(again.outcome)


def assert_begins_like(cut: SimulationResult, uncut: SimulationResult) -> None:
    """What was proposed, started and decided is what the uncut run proposed, started and decided first."""
    proposals = [proposed(trial) for trial in cut.trials]
    assert proposals == [proposed(trial) for trial in uncut.trials[: len(proposals)]]
    assert cut.decisions == uncut.decisions[: len(cut.decisions)]
    assert cut.starts == uncut.starts[: len(cut.starts)]


def assert_goes_like(cut: SimulationResult, uncut: SimulationResult) -> None:
    """The whole run has decided and ended as the uncut one."""
    assert_begins_like(cut, uncut)
    assert cut.fingerprint == uncut.fingerprint


def hide_versions(status: ExperimentStatus) -> ExperimentStatus:
    """A status without what snapshots are stored up to, and when: an operator that restarts writes more."""
    if status.storage is None:
        return status
    unknown = {"trigger": "", "start_time": "", "completion_time": None}
    jobs = [
        job.model_copy(update=unknown) if job.purpose is StoragePurpose.SNAPSHOT else job for job in status.storage.jobs
    ]
    return status.model_copy(update={"storage": status.storage.model_copy(update={"jobs": jobs})})


def assert_is(cut: SimulationResult, uncut: SimulationResult) -> None:
    """The whole run is the uncut one."""
    assert_goes_like(cut, uncut)
    assert [recorded(trial) for trial in cut.trials] == [recorded(trial) for trial in uncut.trials]
    for ours, theirs in zip(cut.trials, uncut.trials, strict=True):
        assert_same_ledger(ours.status, theirs.status)
    assert hide_end_of_change(hide_versions(cut.status)) == hide_end_of_change(hide_versions(uncut.status))


def hide_end_of_change(status: ExperimentStatus) -> ExperimentStatus:
    """Hides when a change of the spec was seen to be carried out: a new operator sees it up to a second later."""
    reconciled = [
        condition.model_copy(update={"last_transition_time": ""})
        if condition.type == ConditionType.RECONCILING
        else condition
        for condition in status.conditions
    ]
    return status.model_copy(update={"conditions": reconciled})


def recorded(trial: Trial) -> TrialStatus:
    """A Trial's status without its ledger, for which see `assert_same_ledger`.

    A program may leave a warm pod's trial, so its agent may hear of the decision once more.
    """
    status = trial.status
    shares = status.pod is not None and "/" in status.pod.uid
    return status.model_copy(update={"ledger": [], "ledger_exported": 0 if shares else status.ledger_exported})


def assert_same_ledger(one: TrialStatus, other: TrialStatus) -> None:
    """The same decisions, but for those given up where the Trial was too large: its spec says what the searcher knew.

    Only what is in the bucket is given up, and never the newest of its kind (see `podtune.runner.trial.ledger.fitted`).
    """
    first, second = ({entry.number: entry for entry in status.ledger} for status in (one, other))
    common = first.keys() & second.keys()
    assert [first[number] for number in common] == [second[number] for number in common]
    newest = {entry.action: number for number, entry in sorted((first | second).items())}.values()
    for number in first.keys() ^ second.keys():
        assert number <= min(one.ledger_exported, other.ledger_exported)
        assert number not in newest


def proposed(trial: Trial) -> TrialSpec:
    """A Trial's spec; what the searcher knew is left out, it has to be the same only where it matters."""
    proposal = trial.spec.proposal.model_copy(update={"observed_seq": 0, "running": ""})
    return trial.spec.model_copy(update={"proposal": proposal})


@pytest.mark.parametrize(
    ("algorithm", "scheduler"),
    [pytest.param(*pair, marks=() if pair in SAMPLE else pytest.mark.long) for pair in PAIRS],
)
def test_a_cut_run_goes_on_as_the_uncut_one(algorithm: str, scheduler: str) -> None:
    check_cuts(make_spec(algorithm, scheduler, {}))


@pytest.mark.parametrize("variant", VARIANTS)
def test_further_settings_stand_cuts_too(variant: str) -> None:
    check_cuts(make_spec(*VARIANTS[variant]))


def test_exploits_that_wait_for_their_donors_checkpoints_stand_cuts_too() -> None:
    """Also where an operator comes back while the checkpoint is on its way: it may lack the value of that one alone."""
    spec = make_spec("random", "pbt", {"maxConcurrentTrials": 12, "scheduler": {"interval": 2}})
    uncut = check_cuts(spec, SLOW, assert_goes_like)
    messages = [entry.message for trial in uncut.trials for entry in trial.status.ledger]
    assert any(message.startswith("waiting to clone") for message in messages)


@pytest.mark.parametrize("scheduler", ["asha", "hyperband"])
def test_stops_and_pauses_that_wait_for_checkpoints_and_lose_some_stand_cuts_too(scheduler: str) -> None:
    """An operator that comes back counts from the decision on, and asks agents anew what they still have to store."""
    late = {"store": {"bucket": "bucket"}, "drain": "100s", "sync": {"timeout": "3m"}}
    uncut = check_cuts(make_spec("random", scheduler, {"checkpoints": late}), SLOW, assert_goes_like)
    assert uncut.status.lost_checkpoints


def check_cuts(
    spec: ExperimentSpec,
    model: ClusterModel = ROUGH,
    assert_whole: Callable[[SimulationResult, SimulationResult], None] = assert_is,
) -> SimulationResult:
    """Checks cuts everywhere in a run, and returns how the uncut one has ended."""
    recorded = make_simulation(spec, model)
    uncut = recorded.run()
    assert recorded.events > CUTS
    cuts = [1 + place * (recorded.events - 2) // (CUTS - 1) for place in range(CUTS)]
    assert len(set(cuts)) == CUTS

    again = make_simulation(spec, model)
    while not again.is_over:
        again.step()
        if again.events in cuts:
            assert_begins_like(cut_here(again, uncut), uncut)
    check_whole_runs(
        lambda: make_simulation(spec, model),
        cuts[:: CUTS // WHOLE],
        lambda cut: assert_whole(cut, uncut),
        runs=1,  # where each cut leads to was looked at above
    )
    return uncut
