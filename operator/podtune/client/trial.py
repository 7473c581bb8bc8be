"""A Trial, and what can be done about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from podtune.api.json_values import canonicalize
from podtune.api.tuning.search_space import format_value
from podtune.cli.client.api_client import Api
from podtune.cli.client.resources import ExperimentView, TrialView, get_experiment, get_trial
from podtune.cli.commands import retry
from podtune.cli.commands.logs import read_log, read_stored_log
from podtune.client.checkpoint import TrialCheckpoint
from podtune.client.errors import InvalidArgument, raise_own_errors
from podtune.client.facts import TrialFacts
from podtune.client.manifest import to_plain
from podtune.client.results import ResultRow, ResultSource, check_rank, choose_results, make_frame, read_stored_rows
from podtune.client.session import ClusterSession
from podtune.client.steering import Steering

if TYPE_CHECKING:
    import pandas


class Trial(TrialFacts):
    """A Trial as it was when it was read; `refresh` reads it anew."""

    def __init__(self, session: ClusterSession, view: TrialView, experiment: ExperimentView) -> None:
        """Is made by an Experiment."""
        super().__init__(view, experiment)
        self._session = session
        self._steering = Steering(session, experiment.namespace, f"trial/{view.name}")

    def refresh(self) -> Trial:
        """Reads it anew.

        Raises:
            PodtuneError: It is gone, or the API server does not say.
        """
        name, namespace = self.name, self.namespace
        view = self._session.call(lambda api: get_trial(api, namespace, name))
        experiment = self._session.call(lambda api: get_experiment(api, namespace, view.experiment))
        return Trial(self._session, view, experiment)

    @property
    def views(self) -> tuple[TrialView, ExperimentView]:
        """What was read of it, and of its Experiment."""
        return self._view, self._experiment

    @property
    def checkpoint(self) -> TrialCheckpoint | None:
        """Its latest checkpoint; None where it has stored none."""
        return next(iter(self.checkpoints[-1:]), None)

    @property
    def checkpoints(self) -> tuple[TrialCheckpoint, ...]:
        """All of its checkpoints that are kept, the oldest first."""
        return tuple(
            TrialCheckpoint(self._session, self.namespace, self.name, record)
            for record in self._view.status.checkpoints
        )

    def logs(self, *, rank: int | None = None, agent: bool = False, stored: bool = False) -> str:
        """Reads the log of its current or last attempt; of a pod that is gone, the last lines where it has failed.

        Args:
            rank: Of a trial of several pods: which one's; else the first, or with `stored` all.
            agent: Whether the agent's log is read, not the program's.
            stored: Whether what is in the store is read, of all attempts (`logs.keep`).

        Raises:
            NotPossible: There is no pod, no log yet, or nothing is stored.
            InvalidArgument: There can be no such rank, or the agent's log was asked for, which is not stored.
            PodtuneError: The API server or the store can't be read.
        """
        if stored and agent:
            raise InvalidArgument("agent: True, and the agent's log is not stored; leave out agent or stored")
        wanted = None if rank is None else check_rank(rank)

        def read(api: Api) -> str:
            if stored:
                options = self._session.store_options
                lines = read_stored_log(api, self.namespace, self._view, options, rank=wanted)
            else:
                lines = read_log(api, self.namespace, self._view, follow=False, agent=agent, rank=wanted or 0)
            return "".join(f"{line}\n" for line in lines)

        return self._session.call(read)

    def follow_logs(self, *, rank: int = 0, agent: bool = False) -> Iterator[str]:
        """Reads the log of its current attempt line by line, as lines come, until the program ends.

        Args:
            rank: Of a trial of several pods: which one's.
            agent: Whether the agent's log is read, not the program's.

        Raises:
            NotPossible: There is no pod, or no log yet.
            PodtuneError: The API server can't be read.
        """
        wanted = check_rank(rank)
        return self._follow_logs(wanted, agent=agent)

    def _follow_logs(self, rank: int, *, agent: bool) -> Iterator[str]:
        with raise_own_errors():
            yield from read_log(self._session.api, self.namespace, self._view, follow=True, agent=agent, rank=rank)

    def results(self, *, source: ResultSource = "auto", rank: int = 0) -> list[ResultRow]:
        """Reads all its results, a dict each, as `kubectl podtune results` prints them.

        Args:
            source: store has all results; status has its learning curve, at most 64 points; auto is the store, or where
                that can't be read the status, with a warning.
            rank: Of a trial of several pods: which one's results; those in the status are of the first.

        Raises:
            InvalidArgument: There is no such source or rank.
            PodtuneError: They can't be read.
        """
        wanted = check_rank(rank)
        view, options = self._experiment, self._session.store_options
        return choose_results(
            source,
            view,
            lambda: self._session.call(lambda api: read_stored_rows(api, view, options, trial=self.name, rank=wanted)),
            lambda: [self],
        )

    def results_df(self, *, source: ResultSource = "auto", rank: int = 0) -> pandas.DataFrame:
        """Reads all its results as a table of pandas; raises as `results`.

        Args:
            source: See `results`.
            rank: See `results`.

        Raises:
            MissingPackage: pandas is not installed.
            PodtuneError: They can't be read.
        """
        return make_frame(self.results(source=source, rank=rank))

    def pause(self) -> str:
        """Has it store a checkpoint and give its pod back; returns in a sentence what will happen.

        Raises:
            NotPossible: It has ended, or has nowhere to store a checkpoint.
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steering.pause()

    def resume(self, *, parameters: Mapping[str, Any] | None = None) -> str:
        """Has it go on where it was; returns in a sentence what will happen.

        Args:
            parameters: Other values than before, by the parameters' names.

        Raises:
            InvalidArgument: They are no map, or a value is none that a manifest can hold.
            NotPossible: It has ended, it runs, or the search space does not allow the values.
            PodtuneError: The API server refuses, or does not answer.
        """
        if parameters is not None and not isinstance(parameters, Mapping):
            raise InvalidArgument(f"parameters: {parameters!r:.64} is no map; give a value for each name")
        values = [f"{name}={_write_value(name, value)}" for name, value in (parameters or {}).items()]
        return self._steering.resume(values)

    def stop(self) -> str:
        """Ends it for good; what it has learnt is kept. Returns in a sentence what will happen.

        Raises:
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steering.stop()

    def retry(self, *, step: int | None = None) -> str:
        """Has it go on in new pods, which have the present trialTemplate; returns in a sentence what will happen.

        Args:
            step: Iteration of the checkpoint that it goes on from; else the last one.

        Raises:
            NotPossible: It has ended, waits by itself, or has no such checkpoint.
            PodtuneError: The API server refuses, or does not answer.
        """
        if step is None:
            return self._session.call(lambda api: retry.request_retry(api, self.namespace, self.name))
        wanted = check_step(step)
        return self._session.call(lambda api: retry.request_return(api, self.namespace, self.name, wanted))


def check_step(step: object) -> int:
    """Checks that an argument is a training iteration.

    Raises:
        InvalidArgument: It is none.
    """
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise InvalidArgument(f"step: {step!r} is no iteration; give a whole number of at least 0")
    return step


def _write_value(name: str, value: object) -> str:
    """A parameter's value as the command line takes it."""
    plain = to_plain(f"parameters: {name}", value)
    if isinstance(plain, list | dict):
        return canonicalize(plain)
    if plain is None:
        raise InvalidArgument(f"parameters: {name}: None is no value; give a number, a text, a list or a map")
    return format_value(plain)
