"""The same for programs with an event loop: each call runs in a thread of its own while the loop goes on.

The threads end with the process, so none that waits for the cluster keeps it.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from podtune.cli.client.resources import ExperimentView, TrialView
from podtune.cli.client.store_access import StoreOptions
from podtune.client.checkpoint import PathName, TrialCheckpoint
from podtune.client.client import Client
from podtune.client.experiment import Experiment
from podtune.client.facts import Best, TrialFacts
from podtune.client.results import ResultRow, ResultSource
from podtune.client.snapshot import ExperimentSnapshot
from podtune.client.trial import Trial
from podtune.kube.manifests import Manifest

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


async def call_in_thread(call: Callable[[], T]) -> T:
    """Calls something in a thread; who is cancelled meanwhile goes on at once, and the answer is dropped."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(set_: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set_(value)

    def work() -> None:
        try:
            answer = partial(settle, future.set_result, call())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised again where somebody awaits it
            answer = partial(settle, future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(answer)

    threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True).start()
    return await future


class AsyncClient:
    """Creates and finds Experiments in a cluster: a `Client` whose calls are awaited."""

    def __init__(
        self,
        *,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        namespace: str | None = None,
        store: StoreOptions | None = None,
    ) -> None:
        """Finds the way to the cluster; see `Client`."""
        self._client = Client(kubeconfig=kubeconfig, context=context, namespace=namespace, store=store)

    @property
    def namespace(self) -> str:
        """Where Experiments are that no namespace is named for."""
        return self._client.namespace

    async def create(self, experiment: Experiment) -> AsyncExperiment:
        """Creates an Experiment in the cluster; see `Client.create`."""
        return AsyncExperiment(await call_in_thread(partial(self._client.create, experiment)))

    async def get(self, name: str, *, namespace: str | None = None) -> AsyncExperiment:
        """Finds an Experiment; see `Client.get`."""
        return AsyncExperiment(await call_in_thread(partial(self._client.get, name, namespace=namespace)))

    async def list(self, *, namespace: str | None = None, all_namespaces: bool = False) -> tuple[AsyncExperiment, ...]:
        """Lists the Experiments of a namespace; see `Client.list`."""
        ask = partial(self._client.list, namespace=namespace, all_namespaces=all_namespaces)
        return tuple(map(AsyncExperiment, await call_in_thread(ask)))


class AsyncCheckpoint:
    """A `TrialCheckpoint` whose download is awaited."""

    def __init__(self, checkpoint: TrialCheckpoint) -> None:
        """Is made by a Trial."""
        self._checkpoint = checkpoint

    @property
    def step(self) -> int:
        """The training iteration that it is of."""
        return self._checkpoint.step

    @property
    def uri(self) -> str:
        """Where it is."""
        return self._checkpoint.uri

    async def download(self, directory: PathName | None = None) -> Path:
        """Downloads it, and checks the hash of all that is in it; see `TrialCheckpoint.download`."""
        return await call_in_thread(partial(self._checkpoint.download, directory))


class AsyncTrial(TrialFacts):
    """A `Trial` whose calls are awaited."""

    def __init__(self, trial: Trial) -> None:
        """Is made by an Experiment."""
        super().__init__(*trial.views)
        self._trial = trial

    @property
    def checkpoint(self) -> AsyncCheckpoint | None:
        """Its latest checkpoint; None where it has stored none."""
        latest = self._trial.checkpoint
        return AsyncCheckpoint(latest) if latest is not None else None

    @property
    def checkpoints(self) -> tuple[AsyncCheckpoint, ...]:
        """All of its checkpoints that are kept, the oldest first."""
        return tuple(map(AsyncCheckpoint, self._trial.checkpoints))

    async def refresh(self) -> AsyncTrial:
        """Reads it anew."""
        return AsyncTrial(await call_in_thread(self._trial.refresh))

    async def logs(self, *, rank: int | None = None, agent: bool = False, stored: bool = False) -> str:
        """Reads the log of its current or last attempt; see `Trial.logs`."""
        return await call_in_thread(partial(self._trial.logs, rank=rank, agent=agent, stored=stored))

    async def follow_logs(self, *, rank: int = 0, agent: bool = False) -> AsyncIterator[str]:
        """Reads the log of its current attempt line by line, as lines come; see `Trial.follow_logs`."""
        lines = self._trial.follow_logs(rank=rank, agent=agent)
        while (line := await call_in_thread(partial(next, lines, None))) is not None:
            yield line

    async def results(self, *, source: ResultSource = "auto", rank: int = 0) -> list[ResultRow]:
        """Reads all its results; see `Trial.results`."""
        return await call_in_thread(partial(self._trial.results, source=source, rank=rank))

    async def results_df(self, *, source: ResultSource = "auto", rank: int = 0) -> pandas.DataFrame:
        """Reads all its results as a table of pandas; see `Trial.results_df`."""
        return await call_in_thread(partial(self._trial.results_df, source=source, rank=rank))

    async def pause(self) -> str:
        """Has it store a checkpoint and give its pod back; see `Trial.pause`."""
        return await call_in_thread(self._trial.pause)

    async def resume(self, *, parameters: Mapping[str, Any] | None = None) -> str:
        """Has it go on where it was; see `Trial.resume`."""
        return await call_in_thread(partial(self._trial.resume, parameters=parameters))

    async def stop(self) -> str:
        """Ends it for good; see `Trial.stop`."""
        return await call_in_thread(self._trial.stop)

    async def retry(self, *, step: int | None = None) -> str:
        """Has it go on in new pods; see `Trial.retry`."""
        return await call_in_thread(partial(self._trial.retry, step=step))


class AsyncExperiment:
    """An Experiment in a cluster, whose calls are awaited; what is asked is as it is at that moment."""

    def __init__(self, experiment: Experiment) -> None:
        """Is made by an `AsyncClient`."""
        self._experiment = experiment

    @property
    def name(self) -> str:
        """Its name."""
        return self._experiment.name

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self._experiment.namespace

    @property
    def manifest(self) -> Manifest:
        """Its manifest, as it was in the cluster when the client found it."""
        return self._experiment.manifest

    async def state(self) -> str:
        """Its state in one word; see `Experiment.state`."""
        return await call_in_thread(lambda: self._experiment.state)

    async def best(self) -> Best:
        """The best result so far; see `Experiment.best`."""
        return await call_in_thread(lambda: self._experiment.best)

    async def trials(self) -> tuple[AsyncTrial, ...]:
        """Its Trials, by their index."""
        return (await self.read()).trials

    async def trial(self, name: str | int) -> AsyncTrial:
        """One of its Trials; see `Experiment.trial`."""
        return AsyncTrial(await call_in_thread(partial(self._experiment.trial, name)))

    async def read(self) -> ExperimentSnapshot[AsyncTrial]:
        """Reads it and all its Trials."""
        return self._convert(await call_in_thread(self._experiment.read))

    async def watch(self, *, show: bool = True) -> AsyncIterator[ExperimentSnapshot[AsyncTrial]]:
        """Follows it: a snapshot after each change, until it ends; see `Experiment.watch`."""
        with self._experiment.watch(show=show) as watch:
            while (snapshot := await call_in_thread(partial(next, watch, None))) is not None:
                yield self._convert(snapshot)

    async def wait(self, timeout: float | str | None = None) -> ExperimentSnapshot[AsyncTrial]:  # noqa: ASYNC109 - as in `Experiment`
        """Waits for its end; see `Experiment.wait`."""
        with self._experiment.watch(show=False) as watch:
            return self._convert(await call_in_thread(partial(self._experiment.wait_by, watch, timeout)))

    async def results(self, *, source: ResultSource = "auto") -> list[ResultRow]:
        """Reads all results of its Trials; see `Experiment.results`."""
        return await call_in_thread(partial(self._experiment.results, source=source))

    async def results_df(self, *, source: ResultSource = "auto") -> pandas.DataFrame:
        """Reads all results as a table of pandas; see `Experiment.results_df`."""
        return await call_in_thread(partial(self._experiment.results_df, source=source))

    async def export_results(self, directory: PathName, *, layout: Literal["ray", "tensorboard"] = "ray") -> Path:
        """Writes all its results to files of other programs; see `Experiment.export_results`."""
        return await call_in_thread(partial(self._experiment.export_results, directory, layout=layout))

    async def download_checkpoint(self, directory: PathName | None = None, *, step: int | None = None) -> Path:
        """Downloads the best checkpoint of its best Trial; see `Experiment.download_checkpoint`."""
        return await call_in_thread(partial(self._experiment.download_checkpoint, directory, step=step))

    async def pause(self) -> str:
        """Suspends it; see `Experiment.pause`."""
        return await call_in_thread(self._experiment.pause)

    async def resume(
        self, *, unfinished: str | None = None, errored: str | None = None, finished: str | None = None
    ) -> str:
        """Has it go on that is suspended or has ended; see `Experiment.resume`."""
        return await call_in_thread(
            partial(self._experiment.resume, unfinished=unfinished, errored=errored, finished=finished)
        )

    async def stop(self) -> str:
        """Ends it and all its trials for good; see `Experiment.stop`."""
        return await call_in_thread(self._experiment.stop)

    async def retry(self, *, from_scratch: bool = False) -> str:
        """Has it go on that has ended, and its failed trials run again; see `Experiment.retry`."""
        return await call_in_thread(partial(self._experiment.retry, from_scratch=from_scratch))

    def _repr_html_(self) -> str:
        return self._experiment._repr_html_()

    def __repr__(self) -> str:
        return f"<AsyncExperiment {self.name!r}, namespace={self.namespace!r}>"

    def _convert(self, snapshot: ExperimentSnapshot[Trial]) -> ExperimentSnapshot[AsyncTrial]:
        """The same with Trials whose calls are awaited."""

        def make_trial(view: TrialView, experiment: ExperimentView) -> AsyncTrial:
            return AsyncTrial(self._experiment.make_trial(view, experiment))

        return snapshot.convert(make_trial)
