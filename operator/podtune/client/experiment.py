"""An Experiment: read or built and checked without a cluster, then created in one, followed and steered."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from podtune.api.names import API_VERSION, EXPERIMENT_KIND
from podtune.api.resources.resume import RestartPolicy, ResumePolicy
from podtune.cli.client.experiment_file import write_document
from podtune.cli.client.resources import ExperimentView, TrialView, get_experiment, get_trial, list_trials
from podtune.client.checkpoint import PathName, download_checkpoint
from podtune.client.display import NoDisplay, choose_display
from podtune.client.errors import InvalidArgument, NotCreated, ObjectNotFound
from podtune.client.facts import Best, read_best
from podtune.client.manifest import build_manifest, check_manifest, read_manifest
from podtune.client.packing.creation import add_function, make_config_map_name, make_experiment_name
from podtune.client.packing.function import pack_function
from podtune.client.page import draw_facts
from podtune.client.results import (
    ResultRow,
    ResultSource,
    choose_results,
    export_results,
    make_frame,
    read_stored_rows,
)
from podtune.client.session import ClusterSession, check_name
from podtune.client.snapshot import ExperimentSnapshot
from podtune.client.steering import Steering
from podtune.client.trial import Trial, check_step
from podtune.client.watch import ExperimentWatch, read_seconds
from podtune.kube.manifests import Manifest

if TYPE_CHECKING:
    import pandas


class Experiment:
    """An Experiment, in the cluster or not yet.

    `from_yaml`, `from_dict`, `build` and `from_function` make one and check it as the operator does; `client.create`
    puts it into the cluster, and `client.get` finds one that is there. What is asked of one in the cluster is as it is
    at that moment.
    """

    def __init__(
        self, manifest: Manifest, session: ClusterSession | None = None, config_map: Manifest | None = None
    ) -> None:
        """Is made by the class methods, or by a client."""
        self._manifest = manifest
        self._session = session
        self._config_map = config_map

    @classmethod
    def from_yaml(cls, source: str | os.PathLike[str]) -> Experiment:
        """Reads the one Experiment of a YAML file, or of the YAML itself, and checks it.

        Args:
            source: Path of the file; or YAML, which has more than one line.

        Raises:
            InvalidExperiment: It can never work; the text says all that is wrong with it.
            InvalidArgument: There is no Experiment, or there are several.
        """
        manifest, config_map = read_manifest(source)
        return cls(check_manifest(manifest), config_map=config_map)

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> Experiment:
        """Checks a manifest; numbers of NumPy are taken for Python's.

        Args:
            manifest: The Experiment, with apiVersion, kind, metadata and spec.

        Raises:
            InvalidExperiment: It can never work; the text says all that is wrong with it.
            InvalidArgument: It holds what no manifest can.
        """
        return cls(check_manifest(manifest))

    @classmethod
    def build(
        cls,
        name: str,
        *,
        metric: str,
        mode: str,
        parameters: Mapping[str, Any],
        image: str,
        command: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        resources: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
        store: Mapping[str, Any] | None = None,
        max_trials: int | None = None,
        max_concurrent_trials: int | None = None,
        namespace: str | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Builds an Experiment whose trials have one container, and checks it.

        Args:
            name: Its name.
            metric: The metric that is optimised.
            mode: max or min.
            parameters: The search space, by name: a domain as in a manifest, such as `{"float": {"min": 0, "max": 1}}`;
                a list of values to choose from; or a value that all trials have.
            image: The image of the training program.
            command: The program and its arguments; else what the image starts.
            env: Environment variables of the program.
            resources: Its requests and limits, such as `{"limits": {"nvidia.com/gpu": 1}}`.
            search: `spec.search`, such as `{"algorithm": "tpe", "seed": 7}`.
            scheduler: `spec.scheduler`, such as `{"asha": {"maxTime": 27}}`.
            store: `spec.checkpoints.store`, such as `{"bucket": "models", "credentialsSecret": "s3"}`.
            max_trials: How many trials there are at most.
            max_concurrent_trials: How many of them run at once.
            namespace: Its namespace; else the client's.
            spec: Further fields of the spec; maps are merged with what is built, anything else takes its place.

        Raises:
            InvalidExperiment: It can never work; the text says all that is wrong with it.
            InvalidArgument: An argument has another type than it should.
        """
        manifest = build_manifest(
            name,
            metric=metric,
            mode=mode,
            parameters=parameters,
            image=image,
            command=command,
            env=env,
            resources=resources,
            search=search,
            scheduler=scheduler,
            store=store,
            max_trials=max_trials,
            max_concurrent_trials=max_concurrent_trials,
            namespace=namespace,
            spec=spec,
        )
        return cls.from_dict(manifest)

    @classmethod
    def from_function(
        cls,
        function: Callable[[dict[str, Any]], Any],
        *,
        metric: str,
        mode: str,
        parameters: Mapping[str, Any],
        image: str,
        name: str | None = None,
        modules: Sequence[ModuleType] = (),
        env: Mapping[str, str] | None = None,
        resources: Mapping[str, Any] | None = None,
        search: Mapping[str, Any] | None = None,
        scheduler: Mapping[str, Any] | None = None,
        store: Mapping[str, Any] | None = None,
        max_trials: int | None = None,
        max_concurrent_trials: int | None = None,
        namespace: str | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Builds an Experiment whose trials run a Python function, and checks it.

        The source of the function travels in a ConfigMap, which is created and deleted with the Experiment.

        Args:
            function: `def train(config)`, of a file or a notebook's cell. It gets the trial's parameters as a dict, and
                returns a dict of metrics, yields several, or calls `podtune.trial.report`.
            metric: The metric that is optimised.
            mode: max or min.
            parameters: The search space, as in `build`.
            image: An image with Python 3.8 or later and the packages that the function imports.
            name: Its name; without it one that is made from the function's.
            modules: Modules and packages of yours that the function imports; they travel, too.
            env: Environment variables of the function.
            resources: Its requests and limits, such as `{"limits": {"nvidia.com/gpu": 1}}`.
            search: `spec.search`, such as `{"algorithm": "tpe", "seed": 7}`.
            scheduler: `spec.scheduler`, such as `{"asha": {"maxTime": 27}}`.
            store: `spec.checkpoints.store`, such as `{"bucket": "models", "credentialsSecret": "s3"}`.
            max_trials: How many trials there are at most.
            max_concurrent_trials: How many of them run at once.
            namespace: Its namespace; else the client's.
            spec: Further fields of the spec; maps are merged with what is built, anything else takes its place.

        Raises:
            PackingError: The function, or what it uses, can't travel; the text names it, and what works.
            InvalidExperiment: The Experiment can never work; the text says all that is wrong with it.
            InvalidArgument: An argument has another type than it should.
        """
        packed = pack_function(function, modules)
        token = secrets.token_hex(3)
        name = make_experiment_name(packed.name, token) if name is None else name
        config_map = make_config_map_name(name, token)
        manifest = build_manifest(
            name,
            metric=metric,
            mode=mode,
            parameters=parameters,
            image=image,
            command=None,
            env=env,
            resources=resources,
            search=search,
            scheduler=scheduler,
            store=store,
            max_trials=max_trials,
            max_concurrent_trials=max_concurrent_trials,
            namespace=namespace,
            spec=spec,
        )
        add_function(manifest, packed, config_map)
        return cls(check_manifest(manifest), config_map=packed.make_config_map(config_map))

    @property
    def name(self) -> str:
        """Its name; empty where the API server is still to make one of generateName."""
        return str(self._manifest["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        """Its namespace; empty where it is not created, and its manifest names none."""
        return str(self._manifest["metadata"].get("namespace", ""))

    @property
    def is_created(self) -> bool:
        """Whether it is in a cluster."""
        return self._session is not None

    @property
    def manifest(self) -> Manifest:
        """Its manifest: as it was given, or as it was in the cluster when the client found it."""
        return copy.deepcopy(self._manifest)

    @property
    def config_map(self) -> Manifest | None:
        """The ConfigMap that its function travels in; None where it was made from no function here."""
        return copy.deepcopy(self._config_map)

    def to_yaml(self) -> str:
        """Writes its manifest for `kubectl apply -f`, after the ConfigMap that its function travels in."""
        kept = ("name", "generateName", "namespace", "labels", "annotations")
        metadata = {field: self._manifest["metadata"][field] for field in kept if field in self._manifest["metadata"]}
        made = {"apiVersion": API_VERSION, "kind": EXPERIMENT_KIND, "metadata": metadata}
        documents = [self._config_map] if self._config_map is not None else []
        documents.append({**made, "spec": self._manifest.get("spec") or {}})
        return "---\n".join(map(write_document, documents))

    @property
    def state(self) -> str:
        """Its state in one word, such as Running or Complete; empty before an operator has seen it."""
        return self._read_view().state

    @property
    def message(self) -> str:
        """The state, in a sentence."""
        return self._read_view().status.message

    @property
    def best(self) -> Best:
        """The best result so far, as `kubectl podtune best` prints it.

        Raises:
            NoResult: There is none yet.
        """
        return read_best(self._read_view())

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Its Trials, by their index."""
        return self.read().trials

    def trial(self, name: str | int) -> Trial:
        """One of its Trials.

        Args:
            name: The Trial's name, or its number in the Experiment.

        Raises:
            ObjectNotFound: It has no such Trial.
        """
        wanted = f"{self.name}-{name}" if isinstance(name, int) and not isinstance(name, bool) else name
        wanted, session, view = check_name("name", wanted), self._require_session(), self._read_view()
        missing = f"name: experiment {self.name} has no trial {wanted!r}; its `trials` lists all there are"
        try:
            found = session.call(lambda api: get_trial(api, self.namespace, wanted))
        except ObjectNotFound as error:
            raise ObjectNotFound(missing) from error
        if found.experiment != self.name:
            raise ObjectNotFound(missing)
        return Trial(session, found, view)

    def read(self) -> ExperimentSnapshot[Trial]:
        """Reads it and all its Trials.

        Raises:
            PodtuneError: It is gone, or the API server does not say.
        """
        session, view = self._require_session(), self._read_view()
        trials = session.call(lambda api: list_trials(api, self.namespace, self.name))
        return ExperimentSnapshot(view, trials, self.make_trial)

    def watch(self, *, show: bool = True) -> ExperimentWatch:
        """Follows it: an iterator of snapshots, one after each change, that ends with the Experiment.

        As the last line of a notebook's cell, `experiment.watch()` alone follows it to its end; elsewhere
        `experiment.watch().wait()` does.

        Args:
            show: Whether each snapshot is shown: in a notebook by one table that updates itself, elsewhere by a line
                for each change.
        """
        display = choose_display() if show else NoDisplay()
        return ExperimentWatch(self._require_session(), self.namespace, self.name, self.make_trial, display)

    def wait(self, timeout: float | str | None = None) -> ExperimentSnapshot[Trial]:
        """Waits for its end; returns it and its Trials as they are then.

        Args:
            timeout: How long to wait at most: seconds, or a duration such as 90s or 1h30m; None for any time.

        Raises:
            WaitTimeout: It goes on after that time.
            ExperimentFailed: It has failed, waits for a correction, or was deleted.
            PodtuneError: The API server can't be asked any more.
        """
        return self.wait_by(self.watch(show=False), timeout)

    def wait_by(self, watch: ExperimentWatch, timeout: float | str | None = None) -> ExperimentSnapshot[Trial]:
        """Waits as `wait`, by a watch that somebody else may close to end the wait."""
        seconds = read_seconds(timeout)
        snapshot = self.read()
        if snapshot.outcome is None:
            snapshot = watch.wait(seconds)
        snapshot.check_outcome()
        return snapshot

    def results(self, *, source: ResultSource = "auto") -> list[ResultRow]:
        """Reads all results of its Trials in order of time, a dict each, as `kubectl podtune results` prints them.

        Args:
            source: store has all results; status has learning curves, at most 64 points a trial; auto is the store, or
                where that can't be read the status, with a warning.

        Raises:
            InvalidArgument: There is no such source.
            PodtuneError: They can't be read.
        """
        session, view = self._require_session(), self._read_view()
        options = session.store_options
        return choose_results(
            source,
            view,
            lambda: session.call(lambda api: read_stored_rows(api, view, options, trial="", rank=0)),
            lambda: self.trials,
        )

    def results_df(self, *, source: ResultSource = "auto") -> pandas.DataFrame:
        """Reads all results as a table of pandas; raises as `results`.

        Args:
            source: See `results`.

        Raises:
            MissingPackage: pandas is not installed.
            PodtuneError: They can't be read.
        """
        return make_frame(self.results(source=source))

    def export_results(self, directory: PathName, *, layout: Literal["ray", "tensorboard"] = "ray") -> Path:
        """Writes all results that its Trials have stored to files of other programs, as `kubectl podtune export` does.

        Args:
            directory: Where to, a directory that is not there yet.
            layout: ray has params.json, result.json and progress.csv of each Trial; tensorboard has event files.

        Returns:
            The directory.

        Raises:
            InvalidArgument: There is no such layout.
            NotPossible: The directory exists, or nothing is stored.
            PodtuneError: The API server or the store can't be read.
        """
        return export_results(self._require_session(), self.namespace, self.name, directory, layout)

    def download_checkpoint(self, directory: PathName | None = None, *, step: int | None = None) -> Path:
        """Downloads the best checkpoint of its best Trial, and checks the hash of all that is in it.

        Args:
            directory: Where to, a directory that is not there yet; else ./<trial>-<iteration>.
            step: Iteration of another checkpoint of that Trial.

        Returns:
            The directory.

        Raises:
            NotPossible: There is no such checkpoint, it is damaged, or the directory exists.
            PodtuneError: The API server or the store can't be read.
        """
        wanted = None if step is None else check_step(step)
        target = f"experiment/{self.name}"
        return download_checkpoint(self._require_session(), self.namespace, target, directory, step=wanted)

    def pause(self) -> str:
        """Suspends it: each trial stores a checkpoint and gives its pod back. Returns in a sentence what will happen.

        Raises:
            NotPossible: It has ended.
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steer().pause()

    def resume(self, *, unfinished: str | None = None, errored: str | None = None, finished: str | None = None) -> str:
        """Has it go on that is suspended or has ended; returns in a sentence what will happen.

        Args:
            unfinished: Of one that has ended, what becomes of its stopped trials: Resume, Restart or Skip.
            errored: Likewise of its failed trials: Resume, Restart or Skip.
            finished: Likewise of its other trials: Restart or Skip.

        Raises:
            NotPossible: It has not ended, and something was said of trials of one that has.
            PodtuneError: The API server refuses, or does not answer.
        """
        given = (
            ("unfinished", unfinished, ResumePolicy),
            ("errored", errored, ResumePolicy),
            ("finished", finished, RestartPolicy),
        )
        policies = {name: _check_policy(name, value, kinds) for name, value, kinds in given if value is not None}
        return self._steer().resume((), policies)

    def stop(self) -> str:
        """Ends it and all its trials for good; returns in a sentence what will happen.

        Raises:
            PodtuneError: The API server refuses, or does not answer.
        """
        return self._steer().stop()

    def retry(self, *, from_scratch: bool = False) -> str:
        """Has it go on that has ended, and its failed trials run again; returns in a sentence what will happen.

        A single trial that runs is retried by its own `retry`.

        Args:
            from_scratch: Whether they start over, not from their last checkpoints.

        Raises:
            NotPossible: It has not ended.
            PodtuneError: The API server refuses, or does not answer.
        """
        return self.resume(errored=ResumePolicy.RESTART if from_scratch else ResumePolicy.RESUME)

    def _repr_html_(self) -> str:
        spec = self._manifest.get("spec") or {}
        names = (str(parameter.get("name", "")) for parameter in spec.get("parameters") or ())
        objective = spec.get("objective") or {}
        facts = {
            "namespace": self.namespace,
            "objective": f"{objective.get('mode', '')} {objective.get('metric', '')}",
            "parameters": ", ".join(names),
            "in a cluster": "" if self.is_created else "not yet: client.create(experiment)",
        }
        return draw_facts(f"Experiment {self.name}", facts)

    def __repr__(self) -> str:
        where = f", namespace={self.namespace!r}" if self.namespace else ""
        return f"<Experiment {self.name!r}{where}{'' if self._session else ', not created'}>"

    def _attach(self, session: ClusterSession, item: Manifest) -> Experiment:
        """Belongs to a cluster from now on; a client calls this."""
        self._session, self._manifest = session, item
        return self

    def _require_session(self) -> ClusterSession:
        if self._session is None:
            raise NotCreated(
                f"experiment {self.name} is not in a cluster yet: client.create(experiment) puts it there, and "
                "client.get(name) finds one that is there"
            )
        return self._session

    def _read_view(self) -> ExperimentView:
        return self._require_session().call(lambda api: get_experiment(api, self.namespace, self.name))

    def _steer(self) -> Steering:
        return Steering(self._require_session(), self.namespace, f"experiment/{self.name}")

    def make_trial(self, view: TrialView, experiment: ExperimentView) -> Trial:
        """Makes a Trial of what was read."""
        return Trial(self._require_session(), view, experiment)


def _check_policy(argument: str, value: object, kinds: type[StrEnum]) -> str:
    if value not in list(kinds):
        raise InvalidArgument(f"{argument}: {value!r} is none of the policies; use {', '.join(kinds)}")
    return str(value)
