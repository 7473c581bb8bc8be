"""What agents report reaches the machine of their trial, and the experiment is looked at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from podtune.api.pods.pod_template import find_trial_container
from podtune.cluster.decoders import decode_trial
from podtune.controllers.decision_loop import DecisionLoop
from podtune.controllers.metrics import RESULTS_TAKEN
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.report_handler import MachineReportHandler
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.stalled import Stalled
from podtune.controllers.store.store import Store
from podtune.controllers.work_queue import WorkQueue
from podtune.protocol.messages import Reply, Report, Result, Unstored
from podtune.results.server import LogSource
from podtune.runner.backoff import Backoff
from podtune.runner.experiment_machine import ExperimentMachine, Unaccepted
from podtune.runner.records import Experiment, Pod
from tests.unit.cluster.objects import experiment_record, trial_body

NOW = 1_800_000_000.0
REPORT = Report(attempt="pod-uid", results=(Result(1, NOW, {"accuracy": 0.5}, 1), Result(2, NOW, {"accuracy": 0.6}, 2)))
TAKEN = Reply(acked_seq=2, durable_seq=0)


@dataclass
class Machine:
    """Answers each report the same, and notes it."""

    experiment: Experiment
    answer: Reply | Unaccepted = TAKEN
    pod: Pod | None = None
    reports: list[tuple[str, str, Report, float]] = field(default_factory=list)

    @property
    def spec(self) -> object:
        return self.experiment.spec

    def find_pod(self, trial: str, rank: int) -> Pod | None:
        return self.pod

    def report(self, trial: str, pod: str, report: Report, now: float) -> Reply | Unaccepted:
        self.reports.append((trial, pod, report, now))
        return self.answer


@dataclass
class OneExperiment:
    """As much of a store as the handler looks at."""

    entry: ExperimentEntry | None
    heard: list[tuple[str, Unstored | None]] = field(default_factory=list)

    def find_entry_of_trial(self, namespace: str, trial: str) -> ExperimentEntry | None:
        return self.entry if (namespace, trial) == ("team", "digits-0") else None

    def observe_agent(self, pod: str, unstored: Unstored | None) -> None:
        self.heard.append((pod, unstored))


@dataclass
class Leadership:
    """As much of a decision loop as the handler looks at."""

    is_leading: bool = True


class Handler:
    """The handler of an operator with one experiment."""

    def __init__(self, *, machine: bool = True, evaluated: dict[str, Any] | None = None, **spec: Any) -> None:
        experiment = experiment_record(**spec)
        self.machine = Machine(experiment)
        made = cast("ExperimentMachine", self.machine) if machine else None
        entry = ExperimentEntry(experiment, Stalled(Backoff(1.0, 1.0)), made)
        entry.trials["digits-0"] = decode_trial(trial_body(evaluation=evaluated) if evaluated else trial_body())
        self.store = OneExperiment(entry)
        self.queue = WorkQueue(lambda: NOW)
        self.leadership = Leadership()
        self.waiters = PodWaiters()
        self.handler = MachineReportHandler(
            cast("Store", self.store), self.queue, cast("DecisionLoop", self.leadership), self.waiters, lambda: NOW
        )


def test_a_report_that_is_taken_has_its_experiment_looked_at() -> None:
    scene, taken = Handler(), RESULTS_TAKEN._value.get()
    assert scene.handler.report("team", "digits-0", "digits-0-1", REPORT) is scene.machine.answer
    assert scene.machine.reports == [("digits-0", "digits-0-1", REPORT, NOW)]
    assert len(scene.queue) == 1
    assert RESULTS_TAKEN._value.get() == taken + 2


def test_one_that_the_machine_refuses_changes_nothing() -> None:
    scene, taken = Handler(), RESULTS_TAKEN._value.get()
    scene.machine.answer = Unaccepted.TOO_EARLY
    assert scene.handler.report("team", "digits-0", "digits-0-1", REPORT) is Unaccepted.TOO_EARLY
    assert (len(scene.queue), RESULTS_TAKEN._value.get()) == (0, taken)


@pytest.mark.parametrize(("machine", "trial"), [(False, "digits-0"), (True, "digits-7")])
def test_results_of_what_is_not_known_yet_come_too_early(machine: bool, trial: str) -> None:
    scene = Handler(machine=machine)
    assert scene.handler.report("team", trial, f"{trial}-1", REPORT) is Unaccepted.TOO_EARLY
    assert (len(scene.queue), scene.store.heard) == (0, [("pod-uid", None)]), "its agent is alive all the same"


def test_who_does_not_lead_says_so() -> None:
    scene = Handler()
    assert scene.handler.is_leading
    scene.leadership.is_leading = False
    assert not scene.handler.is_leading


PRINTED = {"stdout": {"pattern": r"accuracy=(?P<accuracy>\S+)"}}
KEPT: dict[str, Any] = {"logs": {"keep": "8Mi"}, "checkpoints": {"store": {"bucket": "models"}}}


def test_an_agents_output_is_read_from_the_program_only_where_results_are_printed_or_logs_are_kept() -> None:
    printed = Handler(results=PRINTED)
    spec = printed.machine.experiment.spec
    assert spec is not None
    assert find_trial_container(spec.trial_template.spec) == "main"
    assert printed.handler.find_log_source("team", "digits-0", "digits-0-1") == LogSource("main", is_urgent=True)
    assert Handler(**KEPT).handler.find_log_source("team", "digits-0", "digits-0-1") == LogSource(
        "main", is_urgent=False
    )
    assert printed.handler.find_log_source("team", "digits-7", "digits-7-1") is None
    assert Handler().handler.find_log_source("team", "digits-0", "digits-0-1") is None


@pytest.mark.parametrize(
    ("pod", "with_results", "kept"),
    [
        ("digits-0-1", True, True),
        ("digits-0-1-0", True, True),
        ("digits-0-1-3", False, True),
        ("digits-0-1-x", False, False),
        ("digits-10-1", False, False),
        ("digits-1-1", False, False),
    ],
)
def test_results_are_read_from_rank_0_and_logs_from_all_ranks(pod: str, with_results: bool, kept: bool) -> None:
    assert (Handler(results=PRINTED).handler.find_log_source("team", "digits-0", pod) is not None) == with_results
    assert (Handler(**KEPT).handler.find_log_source("team", "digits-0", pod) is not None) == kept
    both = Handler(results=PRINTED, **KEPT).handler.find_log_source("team", "digits-0", pod)
    assert both == (LogSource("main", is_urgent=with_results) if kept else None)


def test_the_log_of_a_pod_that_is_reused_is_kept_for_each_trial() -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}, "reuse": True}
    reused = Handler(trialTemplate=template, **KEPT)
    assert reused.handler.find_log_source("team", "digits-0", "digits-4-1") == LogSource("main", is_urgent=False)


def test_the_output_of_a_pod_that_runs_is_that_of_its_own_program() -> None:
    printed = Handler(results=PRINTED)
    printed.machine.pod = Pod("digits-0-1", "pod-uid", "digits-0", 1, program="trainer")
    source = printed.handler.find_log_source("team", "digits-0", "digits-0-1")
    assert source is not None
    assert source.container == "trainer"


def test_the_output_of_a_gang_with_roles_is_that_of_each_roles_program() -> None:
    pods = [{"spec": {"containers": [{"name": name, "image": "x"}]}} for name in ("drive", "work")]
    roles = [{"name": "driver", "template": pods[0]}, {"name": "worker", "replicas": 2, "template": pods[1]}]
    handler = Handler(trialTemplate={"roles": roles}, **KEPT).handler
    found = [handler.find_log_source("team", "digits-0", f"digits-0-1-{rank}") for rank in range(3)]
    assert [source.container for source in found if source is not None] == ["drive", "work", "work"]


@pytest.mark.parametrize("machine", [True, False], ids=["machine", "machine not built yet"])
def test_the_output_of_an_evaluation_is_that_of_its_own_program_before_its_pod_is_seen(machine: bool) -> None:
    checkpoint = {"step": 4, "uri": "s3://models/digits-0/4", "reason": "Completed"}
    template = {"spec": {"containers": [{"name": "scorer", "image": "x"}]}}
    scene = Handler(
        machine=machine,
        evaluated={**checkpoint, "attempt": 2},
        evaluation={"template": template},
        results=PRINTED,
        **KEPT,
    )
    # The pod that the machine has seen last is still that of the training.
    scene.machine.pod = Pod("digits-0-1", "pod-uid", "digits-0", 1, program="main")
    found = {pod: scene.handler.find_log_source("team", "digits-0", pod) for pod in ("digits-0-1", "digits-0-2")}
    assert found == {
        "digits-0-1": LogSource("main", is_urgent=True),
        "digits-0-2": LogSource("scorer", is_urgent=True),
    }


async def test_an_agent_waits_for_the_next_trial_of_its_pod() -> None:
    scene = Handler()
    waiting = asyncio.create_task(scene.handler.wait_for_next("pod-uid", 60.0))
    await asyncio.sleep(0)
    scene.waiters.wake(["pod-uid"])
    await asyncio.wait_for(waiting, 30.0)
