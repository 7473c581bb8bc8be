"""The same calls, awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import pytest

from podtune.client import (
    AsyncClient,
    AsyncExperiment,
    AsyncTrial,
    Client,
    Experiment,
    InvalidArgument,
    NotPossible,
    ObjectNotFound,
    Trial,
    WaitTimeout,
)
from podtune.client.asynchronous import call_in_thread
from podtune.kube import paths
from tests.unit.cli.cli_fakes import NAMESPACE, RUNNING, TRAINING, experiment, trial
from tests.unit.client.conftest import MANIFEST, ClusterApi, condition

COMPLETE = {**RUNNING, "state": "Complete", "conditions": [condition("Complete", "24 trials done")]}
POD = paths.pod(NAMESPACE, "digits-7-2")


@pytest.fixture
async def digits(api: ClusterApi) -> AsyncExperiment:
    api.add_experiment(experiment(**RUNNING))
    api.add_trial(trial(7, **TRAINING))
    return await AsyncClient().get("digits")


async def test_experiments_are_created_and_listed(api: ClusterApi) -> None:
    client = AsyncClient()
    made = await client.create(Experiment.from_yaml(MANIFEST))
    assert (made.name, made.namespace, client.namespace) == ("digits", NAMESPACE, NAMESPACE)
    assert [found.name for found in await client.list()] == ["digits"]
    assert await made.state() == ""


async def test_what_is_asked_is_what_the_other_client_says(api: ClusterApi, digits: AsyncExperiment) -> None:
    same = Client().get("digits")
    assert await digits.best() == same.best
    assert (await digits.read()).counts == same.read().counts
    assert [trial.parameters for trial in await digits.trials()] == [trial.parameters for trial in same.trials]
    assert await digits.results(source="status") == same.results(source="status") == []


async def test_an_experiment_is_followed_while_the_loop_goes_on(api: ClusterApi, digits: AsyncExperiment) -> None:
    api.tell(experiment(**RUNNING))
    states, waiting = list[str](), asyncio.Event()

    async def follow() -> None:
        async for snapshot in digits.watch(show=False):
            states.append(snapshot.state)
            assert all(isinstance(each, AsyncTrial) for each in snapshot.trials)
            waiting.set()

    following = asyncio.create_task(follow())
    await asyncio.wait_for(waiting.wait(), 60)
    api.tell(experiment(**COMPLETE))
    await asyncio.wait_for(following, 60)
    assert (states[0], states[-1]) == ("Running", "Complete")


async def test_who_is_cancelled_waits_no_longer_and_leaves_no_thread_waiting(
    api: ClusterApi, digits: AsyncExperiment
) -> None:
    before = set(threading.enumerate())
    opened = api.opened_watches
    waiting = asyncio.create_task(digits.wait())
    for _ in range(2):
        assert await call_in_thread(lambda: opened.acquire(timeout=60))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for path in (paths.experiments(NAMESPACE), paths.trials(NAMESPACE)):
        api.told[path].put(None)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


async def test_waiting_ends_after_the_given_time(api: ClusterApi, digits: AsyncExperiment) -> None:
    api.tell(experiment(**RUNNING))
    with pytest.raises(WaitTimeout):
        await digits.wait(timeout=0.01)
    api.add_experiment(experiment(**COMPLETE))
    assert (await digits.wait()).state == "Complete"


async def test_logs_come_line_by_line(api: ClusterApi, digits: AsyncExperiment) -> None:
    api.objects[POD] = {"spec": {"containers": [{"name": "trial"}]}}
    api.logs[paths.log_of(POD)] = ["epoch 1", "epoch 2"]
    running = await digits.trial(7)
    assert [line async for line in running.follow_logs()] == ["epoch 1", "epoch 2"]
    assert await running.logs() == "epoch 1\nepoch 2\n"


async def test_both_are_steered(api: ClusterApi, digits: AsyncExperiment) -> None:
    running = await digits.trial(7)
    for said in (await digits.pause(), await digits.resume(), await digits.stop(), await running.stop()):
        assert "digits" in said
    assert (await running.retry()).startswith("attempt 1 of trial digits-7 ends")
    assert (await running.refresh()).name == "digits-7"
    assert len(api.patched) == 5


async def test_wrong_arguments_are_refused_as_by_the_other_client(
    api: ClusterApi, digits: AsyncExperiment, tmp_path: Path
) -> None:
    client, running = AsyncClient(), await digits.trial(7)
    assert running.checkpoint is None
    refused: list[tuple[Any, type[Exception]]] = [
        (client.create("digits"), InvalidArgument),  # type: ignore[arg-type]
        (client.get(""), InvalidArgument),
        (client.list(namespace="a", all_namespaces=True), InvalidArgument),
        (digits.trial(99), ObjectNotFound),
        (digits.wait(timeout=-1), InvalidArgument),
        (digits.results(source="all"), InvalidArgument),  # type: ignore[arg-type]
        (digits.results_df(source="all"), InvalidArgument),  # type: ignore[arg-type]
        (digits.download_checkpoint(step=-1), InvalidArgument),
        (digits.resume(errored="Forget"), InvalidArgument),
        (digits.retry(), NotPossible),
        (running.pause(), NotPossible),
        (running.resume(parameters={"rate": None}), InvalidArgument),
        (running.retry(step=-1), InvalidArgument),
        (running.logs(rank=-1), InvalidArgument),
        (running.results(rank=-1), InvalidArgument),
        (running.results_df(rank=-1), InvalidArgument),
    ]
    for asked, kind in refused:
        with pytest.raises(kind):
            await asked


@pytest.mark.parametrize(("one", "other"), [(Client, AsyncClient), (Experiment, AsyncExperiment), (Trial, AsyncTrial)])
def test_each_call_is_there_twice_with_the_same_arguments(one: type, other: type) -> None:
    """What makes an Experiment needs no cluster, and a few are for this package itself."""
    alone = {"from_yaml", "from_dict", "build", "from_function", "is_created", "to_yaml", "message", "wait_by"}
    alone |= {"make_trial", "views", "config_map"}
    names = {name for name in dir(one) if not name.startswith("_")} - alone
    assert names <= set(dir(other))
    for name in names:
        call, awaited = inspect.getattr_static(one, name), inspect.getattr_static(other, name)
        if inspect.isfunction(call) and inspect.isfunction(awaited):
            assert list(inspect.signature(call).parameters) == list(inspect.signature(awaited).parameters), name


async def test_an_error_of_a_thread_is_raised_where_it_is_awaited() -> None:
    with pytest.raises(ZeroDivisionError):
        await call_in_thread(lambda: 1 / 0)
