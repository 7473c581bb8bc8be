"""An experiment from its manifest to its end, in a cluster in memory and in virtual time, whatever goes wrong."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from podtune.api.pods.pod_template import AGENT_CONTAINER
from podtune.api.resources.experiment import ExperimentSpec
from podtune.app.store_updater import StoreUpdater
from podtune.cluster.events import Reporter
from podtune.cluster.executor import Executor as ApiExecutor
from podtune.cluster.pods.manifest import AgentSettings
from podtune.controllers import action_runner, proposer
from podtune.controllers.action_runner import ActionRunner
from podtune.controllers.decision_loop import DecisionLoop
from podtune.controllers.metrics import ATTEMPTS, CHECKPOINTS_LEFT
from podtune.controllers.pod_waiters import PodWaiters
from podtune.controllers.pods.namespace_caps import NO_LIMITS, PodLimits
from podtune.controllers.report_handler import MachineReportHandler
from podtune.controllers.store import entry
from podtune.controllers.store.entry import ExperimentEntry
from podtune.controllers.store.store import Store
from podtune.controllers.watch.resync import Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.controllers.work_queue import WorkQueue
from podtune.protocol.messages import FinalCommit, Reply, Report, Result
from podtune.runner.experiment_machine import Unaccepted
from podtune.runner.settings import RunnerSettings
from tests.unit.cluster.fake_client import FakeCluster, no_answer, refusal
from tests.unit.cluster.objects import EXPERIMENTS, PODS, TRIALS, experiment_body, pod_body, trial_body
from tests.unit.cluster.virtual_time import in_virtual_time, now

Manifest = dict[str, Any]
STARTED = {"startedAt": "2024-05-01T12:00:00Z"}


class AtOnce(Executor):
    """Does all work at once: virtual time knows no threads."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class HangingWithSeed13(AtOnce):
    """Does work at once, but the answers of one experiment's searcher do not come."""

    def __init__(self) -> None:
        self.hanging: list[tuple[Future[Any], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        answer = super().submit(fn, *args, **kwargs)
        spec = next((value for value in args if isinstance(value, ExperimentSpec)), None)
        if spec is None or spec.search.seed != 13:
            return answer
        self.hanging.append((Future(), answer.result()))
        return self.hanging[-1][0]

    def answer(self) -> None:
        for future, answer in self.hanging:
            future.set_result(answer)


class Operator:
    """Everything between the watches and the API server."""

    def __init__(
        self, cluster: FakeCluster, pod_limits: PodLimits = NO_LIMITS, threads: Executor | None = None
    ) -> None:
        self.clock_is_off = 0.0
        self.leads = True
        self.queue = WorkQueue(self.now)
        self.store = Store(RunnerSettings(), self.queue.add, pod_limits=pod_limits)
        self.health = WatchHealth(now)
        reporter = Reporter("test", lambda: "2024-05-01T12:00:00.000000Z", self.store.find_trial_uid)
        observer = StoreUpdater(self.store, self.health)
        executor = ApiExecutor(cluster, observer, AgentSettings("agent:1", "Always", "http://r"), reporter)
        pod_waiters = PodWaiters()
        actions = ActionRunner(self.queue, executor, threads or AtOnce(), RunnerSettings().proposal_deadline, self.now)
        self.decisions = DecisionLoop(
            self.store,
            self.queue,
            actions,
            pod_waiters=pod_waiters,
            now=self.now,
            may_decide=lambda: self.leads,
        )
        self.handler = MachineReportHandler(self.store, self.queue, self.decisions, pod_waiters, self.now)
        self.resync = Resync(cluster, self.store, (), random.Random(1))
        self._take = {
            "experiments": (self.store.observe_experiment, self.store.observe_experiment_deletion),
            "trials": (self.store.observe_trial, self.store.observe_trial_deletion),
            "pods": (self.store.observe_pod, self.store.observe_pod_deletion),
        }

    def now(self) -> float:
        return now() + self.clock_is_off

    def event(self, kind: str, plural: str, body: Manifest) -> None:
        if plural in self._take:
            self.health.saw(plural, body)
            self._take[plural][kind == "DELETED"](body)


def _take_time(world: World, seconds: float) -> None:
    """Has each request to the API server take so long."""
    request: Callable[..., Awaitable[Any]] = world.cluster.request

    async def slow(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(seconds)
        return await request(*args, **kwargs)

    world.cluster.request = slow


class World:
    """A cluster with kubelets that run each program for a few seconds, and an operator."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.watchers.append(self._event)
        self.operator: Operator | None = None
        self.exit_code = 0
        self.runs: Counter[str] = Counter()
        self.pod_limits = NO_LIMITS
        self.threads: Executor = AtOnce()
        self._kubelets: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def operating(self) -> AsyncIterator[Operator]:
        operator = Operator(self.cluster, self.pod_limits, self.threads)
        await operator.resync.run_first()
        self.operator = operator
        task = asyncio.create_task(operator.decisions.run())
        try:
            yield operator
            assert not task.done(), task
        finally:
            self.operator = None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def experiment(self, **spec: Any) -> None:
        self.cluster.put(EXPERIMENTS, experiment_body(**spec))

    def condition(self, type_: str, name: str = "digits") -> str:
        body = self.cluster.get(f"{EXPERIMENTS}/{name}")
        conditions = body.get("status", {}).get("conditions", [])
        return next((c["status"] for c in conditions if c["type"] == type_), "")

    async def until(self, type_: str, within: float = 300) -> None:
        await self.until_it(lambda: self.condition(type_) == "True", within)

    async def until_it(self, holds: Callable[[], bool], within: float = 300) -> None:
        async with asyncio.timeout(within):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def states(self) -> Counter[str]:
        return Counter(trial["status"].get("state", "") for trial in self.cluster.all("trials"))

    def _event(self, kind: str, plural: str, body: Manifest) -> None:
        self._changed.set()
        if plural == "pods" and kind == "ADDED":
            task = asyncio.create_task(self._kubelet(body["metadata"]["name"]))
            self._kubelets.add(task)
            task.add_done_callback(self._kubelets.discard)
        if self.operator is not None:
            asyncio.get_running_loop().call_later(0.05, self.operator.event, kind, plural, body)

    async def _kubelet(self, name: str) -> None:
        self.runs[name] += 1
        await asyncio.sleep(1)
        self._status(name, "Running", {"running": STARTED})
        await asyncio.sleep(5)
        end = STARTED | {"exitCode": self.exit_code, "finishedAt": "2024-05-01T12:00:05Z"}
        self._status(name, "Failed" if self.exit_code else "Succeeded", {"terminated": end})

    def _status(self, name: str, phase: str, state: Manifest) -> None:
        path = f"{PODS}/{name}"
        pod = self.cluster.get(path)
        if pod is not None:
            end = state.get("terminated")
            agent = state if end is None else {"terminated": end | {"exitCode": 0, "message": _final_commit(pod)}}
            status = {
                "phase": phase,
                "initContainerStatuses": [{"name": AGENT_CONTAINER, "state": agent}],
                "containerStatuses": [{"name": "main", "state": state}],
            }
            self.cluster.change(path, lambda body: body.update(status=status))


def _final_commit(pod: Manifest) -> str:
    """What an agent leaves whose program has reported one result."""
    result = Result(seq=1, time=0.0, metrics={"accuracy": 0.5, "training_iteration": 1}, step=1)
    return FinalCommit(attempt=pod["metadata"]["uid"], seq=1, acked_seq=0, last=result).to_json()


@in_virtual_time
async def test_an_experiment_comes_to_its_end() -> None:
    world = World()
    async with world.operating() as operator:
        world.experiment()
        await world.until("Complete")
        assert operator.health.is_alive
    assert len(world.cluster.all("trials")) == 3
    assert sorted(world.runs) == ["digits-0-1", "digits-1-1", "digits-2-1"]
    assert world.condition("Stalled") == "False"


@in_virtual_time
async def test_one_that_was_there_before_the_operator_does_too() -> None:
    world = World()
    world.experiment()
    async with world.operating():
        await world.until("Complete")


@in_virtual_time
async def test_an_operator_that_dies_at_any_moment_is_carried_on_from_by_the_next() -> None:
    world = World()
    world.experiment()
    rng = random.Random(3)
    for _ in range(40):
        async with world.operating():
            await asyncio.sleep(rng.random())
    async with world.operating():
        await world.until("Complete")
    assert len(world.cluster.all("trials")) == 3
    assert all(count == 1 for count in world.runs.values())


@in_virtual_time
async def test_an_api_server_in_bad_health_is_endured() -> None:
    world = World()
    rng = random.Random(5)

    def now_and_then(call: Any) -> None:
        if rng.random() < 0.3:
            raise rng.choice([no_answer(), refusal(500, "etcd"), refusal(409, "conflict", "Conflict")])

    async with world.operating():
        world.experiment()
        world.cluster.before = now_and_then
        await world.until("Complete", within=3600)
    assert len(world.cluster.all("trials")) == 3
    assert all(count == 1 for count in world.runs.values())


@in_virtual_time
async def test_failures_are_tried_again_with_backoff_and_not_in_a_loop() -> None:
    world = World()
    async with world.operating():
        world.experiment()
        world.cluster.fail("POST", "trials", refusal(403, "exceeded quota"), times=1000)
        await asyncio.sleep(120)
    posts = [call for call in world.cluster.writes("trials") if call.method == "POST"]
    assert 2 * 5 <= len(posts) <= 2 * 12  # two places; 0.5 s, doubling, up to 60 s


@in_virtual_time
async def test_a_clock_that_goes_back_delays_nothing() -> None:
    world = World()

    def refuse(call: Any) -> None:
        if call.method == "POST":
            raise refusal(403, "exceeded quota")

    async with world.operating() as operator:
        operator.clock_is_off = 4096.0
        world.experiment()
        world.cluster.before = refuse
        await asyncio.sleep(20)  # by now it waits some seconds between two tries
        world.cluster.before = lambda _: None
        operator.clock_is_off = 0.0
        await world.until("Complete", within=120)


@in_virtual_time
async def test_a_refused_pod_holds_the_experiment_until_the_api_server_takes_one() -> None:
    world = World()
    counted = ATTEMPTS.labels("infrastructure")._value.get()
    async with world.operating():
        world.experiment(failures={"startDeadline": "1h"})
        world.cluster.fail("POST", "pods", refusal(403, "violates PodSecurity"), times=1000)
        await world.until("Stalled")
        await asyncio.sleep(1000)
        sent = [call.params.get("dryRun") for call in world.cluster.writes("pods")]
        assert sent == [None] + ["All"] * 3, "one stands for the other, then a question every five minutes"
        assert "violates PodSecurity" in world.cluster.all("experiments")[0]["status"]["message"]
        assert [event["reason"] for event in world.cluster.all("events")] == ["PodRefused"]
        world.cluster.failures.clear()
        await world.until("Complete")
    assert world.states() == {"TERMINATED": 3}
    assert ATTEMPTS.labels("infrastructure")._value.get() == counted


@in_virtual_time
async def test_experiments_do_not_get_in_each_others_way() -> None:
    world = World()
    async with world.operating():
        world.experiment()
        world.cluster.put(EXPERIMENTS, experiment_body("other", uid="e-2"))
        await world.until("Complete")
    assert Counter(trial["spec"]["experiment"] for trial in world.cluster.all("trials")) == {"digits": 3, "other": 3}


@in_virtual_time
async def test_a_searcher_that_hangs_delays_its_own_experiment_only() -> None:
    threads = HangingWithSeed13()
    world = World()
    world.threads = threads
    async with world.operating():
        slow = {"algorithm": "tpe", "maxTrials": 3, "seed": 13}
        world.cluster.put(EXPERIMENTS, experiment_body("other", uid="e-2", search=slow))
        world.experiment()
        await world.until("Complete", within=60)
        assert world.condition("ProposalsMade", "other") == ""
        await world.until_it(lambda: world.condition("ProposalsMade", "other") == "False")
        await asyncio.sleep(3600)
        assert len(threads.hanging) == proposer.MAX_THREADS
        threads.answer()
        await world.until_it(lambda: world.condition("Complete", "other") == "True")
    assert world.condition("ProposalsMade", "other") == "True"


@in_virtual_time
async def test_an_experiment_learns_from_an_earlier_one_once_that_has_ended() -> None:
    world = World()
    async with world.operating():
        later = {"algorithm": "tpe", "maxTrials": 3, "warmStart": {"experiment": "digits"}}
        world.cluster.put(EXPERIMENTS, experiment_body("later", uid="e-2", search=later))
        await world.until_it(lambda: world.condition("ProposalsMade", "later") == "False")
        world.experiment()
        await world.until("Complete")
        await world.until_it(lambda: world.condition("ProposalsMade", "later") == "True")
    (kept,) = world.cluster.all("configmaps")
    assert kept["data"]["results.jsonl"].count("\n") == 3
    world.cluster.remove(f"{EXPERIMENTS}/digits")
    async with world.operating():
        await world.until_it(lambda: world.condition("Complete", "later") == "True")
    trials = [trial for trial in world.cluster.all("trials") if trial["spec"]["experiment"] == "later"]
    assert len(trials) == 3


# An Experiment that can't be used


@in_virtual_time
async def test_an_experiment_that_can_not_be_read_is_stalled_and_told_so_once() -> None:
    world = World()
    async with world.operating():
        world.experiment(parameters=[])
        await world.until("Stalled")
        await asyncio.sleep(600)
    writes = Counter(call.path.rpartition("/")[2] for call in world.cluster.writes())
    assert writes == {"status": 1, "events": 1}
    (event,) = world.cluster.all("events")
    assert (event["reason"], event["regarding"]["uid"]) == ("InvalidSpec", "e-1")
    assert "spec.parameters" in event["note"]


@in_virtual_time
async def test_what_a_deleted_experiment_leaves_in_its_bucket_is_counted_and_logged() -> None:
    before = CHECKPOINTS_LEFT._value.get()
    world = World()
    body = experiment_body(parameters=[])
    body["metadata"] |= {"deletionTimestamp": "2024-05-01T12:00:00Z", "finalizers": ["podtune.dev/checkpoints"]}
    world.cluster.fail("POST", "events", refusal(403, "the namespace is being terminated"), times=1000)
    with capture_logs() as lines:
        async with world.operating():
            world.cluster.put(f"{EXPERIMENTS}/digits", body)
            await asyncio.sleep(10)
    (line,) = [line for line in lines if line["event"] == "checkpoints left"]
    assert (line["log_level"], line["experiment"], line["prefix"]) == ("warning", "digits", "e-1/")
    assert line["experiment_uid"] == "e-1"
    assert CHECKPOINTS_LEFT._value.get() == before + 1


@in_virtual_time
async def test_a_stalled_status_that_can_not_be_written_is_tried_again_with_backoff() -> None:
    world = World()
    async with world.operating():
        world.experiment(parameters=[])
        world.cluster.fail("PUT", "experiments", refusal(422, "invalid"), times=1000)
        await asyncio.sleep(120)
        assert 5 <= len(world.cluster.writes("experiments")) <= 12
        assert world.cluster.all("events") == []
        world.cluster.failures.clear()
        await world.until("Stalled")


@in_virtual_time
async def test_a_stalled_experiment_that_is_mended_goes_on() -> None:
    world = World()
    async with world.operating():
        world.experiment(parameters=[])
        await world.until("Stalled")
        good = experiment_body()["spec"]
        world.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body.update(spec=good))
        await world.until("Complete")
    assert world.condition("Stalled") == "False"


@in_virtual_time
async def test_an_experiment_that_is_spoilt_on_its_way_goes_on_with_what_it_had() -> None:
    world = World()
    async with world.operating():
        world.experiment(maxConcurrentTrials=1)
        await asyncio.sleep(2)
        world.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body["spec"].update(trialTemplate={}))
        with capture_logs() as logs:
            await world.until("Stalled")
            world.exit_code = 1
            await asyncio.sleep(10)
        assert not [entry for entry in logs if entry["event"] in ("action failed", "reconcile failed")]
        (trial,) = world.cluster.all("trials")
        assert trial["status"]["lastAttempt"]["exitCode"] == 1  # its logs were fetched by the template from before
        world.exit_code = 0
        good = experiment_body()["spec"]
        world.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body.update(spec=good))
        await world.until("Complete")


# The operator's own errors


@in_virtual_time
async def test_an_error_in_a_decision_is_of_that_experiment_alone_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    async with world.operating() as operator:
        world.experiment()
        world.cluster.put(EXPERIMENTS, experiment_body("other", uid="e-2"))
        await asyncio.sleep(0.1)
        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(operator.store.find_entry("e-2").machine, "decide", lambda _: 1 / 0)
            await world.until("Complete")
        assert 1 <= [log["event"] for log in logs].count("reconcile failed") <= 8
        await world.until_it(lambda: len(world.cluster.all("trials")) == 6)


@in_virtual_time
async def test_an_error_on_an_outcome_leaves_nothing_hanging() -> None:
    world = World()
    async with world.operating() as operator:
        world.experiment()
        await asyncio.sleep(0.051)
        operator.store.find_entry("e-1").machine.on_action_result = lambda *_: 1 / 0
        with capture_logs() as logs:
            await world.until("Complete")
    assert [log["event"] for log in logs if "rebuilt" in log["event"]]
    assert len(world.cluster.all("trials")) == 3


@in_virtual_time
async def test_no_more_requests_of_an_experiment_are_under_way_at_a_time_than_may_be() -> None:
    world = World()
    most = current = 0
    request: Callable[..., Awaitable[Any]] = world.cluster.request

    async def slow(method: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal most, current
        current += 1
        most = max(most, current)
        await asyncio.sleep(0.2)
        current -= 1
        return await request(method, *args, **kwargs)

    async with world.operating():
        world.cluster.request = slow
        world.experiment(search={"algorithm": "random", "maxTrials": 200, "seed": 7}, maxConcurrentTrials=200)
        await asyncio.sleep(60)
    assert most == action_runner.MAX_REQUESTS_OF_ONE


@in_virtual_time
async def test_a_few_trials_do_not_wait_for_the_requests_of_thousands() -> None:
    async def first_pods(queued: int) -> float:
        """Seconds from the creation of an experiment of three trials until all have a pod."""
        world = World()
        search = {"algorithm": "random", "maxTrials": queued + 1, "seed": 7}
        world.cluster.put(EXPERIMENTS, experiment_body("giant", "g", search=search, maxConcurrentTrials=queued + 1))
        for index in range(queued):
            body = trial_body(index, uid=f"g-{index}", owner="g", experiment="giant", state="PENDING")
            world.cluster.put(TRIALS, body)
        _take_time(world, 0.2)
        async with world.operating():
            await asyncio.sleep(1)
            begun = now()
            world.experiment(maxConcurrentTrials=3)
            await world.until_it(lambda: sum(name.startswith("digits") for name in world.runs) == 3)
            return now() - begun

    alone = await first_pods(0)
    assert await first_pods(2000) < alone + 0.5


@in_virtual_time
async def test_requests_that_get_no_answer_hold_up_those_of_their_experiment_alone() -> None:
    world = World()
    request = world.cluster.request

    async def hangs_for_one(method: Any, path: str, **kwargs: Any) -> Any:
        if "stuck" in str(kwargs.get("body", "")):
            await asyncio.sleep(3600)
        return await request(method, path, **kwargs)

    async with world.operating():
        world.cluster.request = hangs_for_one
        search = {"algorithm": "random", "maxTrials": 500, "seed": 7}
        world.cluster.put(EXPERIMENTS, experiment_body("stuck", "s", search=search, maxConcurrentTrials=500))
        await asyncio.sleep(60)
        world.experiment()
        await world.until("Complete")


def _running(world: World) -> Counter[str]:
    """By experiment, how many pods have not ended."""
    phases = ((pod["metadata"]["name"], pod.get("status", {}).get("phase")) for pod in world.cluster.all("pods"))
    return Counter(name.partition("-")[0] for name, phase in phases if phase not in ("Succeeded", "Failed"))


@in_virtual_time
async def test_look_ups_that_get_no_answer_are_few_and_end_with_their_experiment() -> None:
    world = World()
    request: Callable[..., Awaitable[Any]] = world.cluster.request
    asked: list[str] = []
    under_way: list[str] = []

    async def hang(method: str, path: str, **kwargs: Any) -> Any:
        if "/trials/other-" not in path:
            return await request(method, path, **kwargs)
        asked.append(path)
        under_way.append(path)
        try:
            await asyncio.Event().wait()
        finally:
            under_way.remove(path)

    world.cluster.request = hang
    initial = [
        {
            "parameters": {"lr": 0.001 * (n + 1), "units": 16},
            "restoreFrom": {"experiment": "other", "trial": f"other-{n}"},
        }
        for n in range(20)
    ]
    greedy = experiment_body(
        "greedy",
        uid="e-2",
        search={"algorithm": "random", "maxTrials": 20, "seed": 7, "initial": initial},
        maxConcurrentTrials=20,
        checkpoints={"store": {"bucket": "models"}},
    )
    async with world.operating():
        world.cluster.put(EXPERIMENTS, greedy)
        await asyncio.sleep(20)
        assert len(under_way) == 2
        await asyncio.sleep(20)
        assert len(asked) == 4, "each is given up after a while"
        world.experiment()
        await world.until_it(lambda: len(world.runs) == 3)
        assert len(under_way) == 2
        world.cluster.remove(f"{EXPERIMENTS}/greedy")
        await asyncio.sleep(5)
        assert under_way == []
        before = len(asked)
        await asyncio.sleep(100)
        assert len(asked) == before


@in_virtual_time
async def test_experiments_share_the_pods_that_their_namespace_may_have() -> None:
    world = World()
    world.pod_limits = PodLimits(default=100, namespaces={"team": 4})
    search = {"algorithm": "random", "maxTrials": 30, "seed": 7}
    totals: list[int] = []
    world.cluster.watchers.append(lambda *_: totals.append(_running(world).total()))
    async with world.operating():
        world.cluster.put(EXPERIMENTS, experiment_body("giant", "g", search=search, maxConcurrentTrials=30))
        await world.until_it(lambda: _running(world) == {"giant": 4})
        await asyncio.sleep(2)
        assert world.condition("PodLimitReached", "giant") == "True"
        world.experiment(search=search, maxConcurrentTrials=30)
        await world.until_it(lambda: _running(world) == {"giant": 2, "digits": 2}, within=10)
    async with world.operating():
        await asyncio.sleep(7)
        assert _running(world) == {"giant": 2, "digits": 2}
        await world.until("Complete")
        await world.until_it(lambda: world.condition("Complete", "giant") == "True")
    assert world.condition("PodLimitReached") == "False"
    assert max(totals) == 4


@in_virtual_time
async def test_an_experiment_that_is_deleted_leaves_its_turn_to_others() -> None:
    world = World()
    world.pod_limits = PodLimits(default=1)
    async with world.operating():
        for name, uid in (("first", "f"), ("second", "s")):
            world.cluster.put(EXPERIMENTS, experiment_body(name, uid))
        await world.until_it(lambda: bool(world.runs))
        await asyncio.sleep(2)
        world.experiment()
        await world.cluster.request("DELETE", f"{EXPERIMENTS}/first")
        await world.cluster.request("DELETE", f"{EXPERIMENTS}/second")
        await world.until("Complete")


@in_virtual_time
async def test_what_is_under_way_ends_with_the_operator() -> None:
    world = World()
    async with world.operating():
        _take_time(world, 10)
        world.experiment()
        await asyncio.sleep(1)
    world.cluster.calls.clear()
    await asyncio.sleep(60)
    assert world.cluster.calls == []


# Results


def report(uid: str, *values: float) -> Report:
    results = (Result(seq, 0.0, {"accuracy": value}, seq) for seq, value in enumerate(values, start=1))
    return Report(attempt=uid, results=tuple(results))


@in_virtual_time
async def test_results_are_taken_in_and_written_to_the_trial() -> None:
    world = World()
    async with world.operating() as operator:
        world.experiment()
        await asyncio.sleep(3)
        pod = world.cluster.get(f"{PODS}/digits-0-1")
        assert pod is not None
        answer = operator.handler.report("team", "digits-0", "digits-0-1", report(pod["metadata"]["uid"], 0.5, 0.9))
        assert isinstance(answer, Reply)
        assert (answer.acked_seq, answer.durable_seq) == (2, 0)
        await world.until("Complete")
    assert world.cluster.get(f"{TRIALS}/digits-0")["status"]["best"]["accuracy"] == "0.9"  # type: ignore[index]
    assert world.cluster.get(f"{EXPERIMENTS}/digits")["status"]["best"]["value"] == "0.9"  # type: ignore[index]


@in_virtual_time
async def test_results_of_what_is_not_known_yet_come_too_early() -> None:
    world = World()
    operator = Operator(world.cluster)
    assert operator.handler.report("team", "digits-0", "digits-0-1", report("p-1")) is Unaccepted.TOO_EARLY
    operator.store.observe_experiment(experiment_body())
    operator.store.observe_trial(trial_body())
    operator.store.observe_pod(pod_body())
    assert operator.handler.report("team", "digits-0", "digits-0-1", report("p-1")) is Unaccepted.TOO_EARLY
    assert not operator.handler.is_leading


@in_virtual_time
async def test_who_has_lost_the_lease_decides_on_nothing() -> None:
    world = World()
    operator = Operator(world.cluster)
    task = asyncio.create_task(operator.decisions.run())
    await asyncio.sleep(1)
    assert operator.handler.is_leading
    operator.leads = False
    assert not operator.handler.is_leading
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    operator.leads = True
    assert not operator.handler.is_leading


# Machines that take a while to make


@pytest.fixture
def slow_builds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every experiment is one of many trials, and a second lies between two steps: when machines were begun."""
    begun: list[float] = []
    build, decide = ExperimentEntry.begin_build, DecisionLoop._decide

    def begin(self: ExperimentEntry, *args: Any) -> None:
        begun.append(now())
        build(self, *args)

    def decide_slowly(self: DecisionLoop, uid: str) -> None:
        decide(self, uid)
        known = self._store._entries.get(uid)
        if known is not None and known.build is not None:
            self._queue.remove(uid)
            self._queue.add_at(uid, now() + 1.0)

    monkeypatch.setattr(ExperimentEntry, "begin_build", begin)
    monkeypatch.setattr(DecisionLoop, "_decide", decide_slowly)
    monkeypatch.setattr(entry, "FEW_TRIALS", -1)
    monkeypatch.setattr(entry, "STEPS_AT_A_TIME", 1)
    return begun


@in_virtual_time
async def test_what_is_seen_while_a_machine_is_made_reaches_it(slow_builds: list[float]) -> None:
    world = World()
    async with world.operating() as operator:
        world.cluster.put(EXPERIMENTS, experiment_body())
        world.cluster.put(TRIALS, trial_body())
        await asyncio.sleep(0.5)
        assert operator.store.find_entry("e-1").machine is None
        fewer = {"algorithm": "random", "maxTrials": 2, "seed": 7}
        world.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body["spec"].update(search=fewer))
        world.cluster.change(f"{EXPERIMENTS}/digits", lambda body: body["metadata"].update(generation=2))
        await world.until("Complete")
    assert len(slow_builds) == 1
    assert world.states() == {"TERMINATED": 2}


@in_virtual_time
async def test_the_outcome_of_an_action_waits_for_a_machine_that_is_made_anew(slow_builds: list[float]) -> None:
    world = World()
    async with world.operating() as operator:
        _take_time(world, 0.5)
        world.experiment()
        await world.until_it(lambda: len(world.cluster.all("trials")) == 2)
        machine = operator.store.find_entry("e-1").machine
        machine._outdated = True
        operator.queue.add("e-1")
        await world.until("Complete")
    assert len(slow_builds) == 2
    assert world.states() == {"TERMINATED": 3}


@in_virtual_time
async def test_nothing_is_done_for_an_experiment_that_is_deleted_while_its_machine_is_made(
    slow_builds: list[float],
) -> None:
    world = World()
    async with world.operating() as operator:
        world.cluster.put(EXPERIMENTS, experiment_body())
        world.cluster.put(TRIALS, trial_body())
        await asyncio.sleep(0.5)
        operator.store.observe_experiment_deletion(world.cluster.all("experiments")[0])
        before = len(world.cluster.calls)
        await asyncio.sleep(10.0)
    assert len(slow_builds) == 1
    assert len(world.cluster.calls) == before
