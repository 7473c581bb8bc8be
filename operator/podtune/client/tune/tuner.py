"""Runs a search from Python as Ray Tune's `Tuner` does: the Experiment behind it lives in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podtune.api.names import ExperimentState
from podtune.client.client import Client
from podtune.client.errors import InvalidArgument
from podtune.client.experiment import Experiment
from podtune.client.manifest import merge_fields
from podtune.client.tune.configs import RunConfig, TuneConfig, describe_run
from podtune.client.tune.result_grid import ResultGrid
from podtune.client.tune.space import read_param_space
from podtune.client.watch import read_seconds


class Tuner:
    """A search over the parameters of a function.

    The trials run in pods of the cluster, and the search goes on there if this process ends. `restore` takes it up.
    """

    def __init__(
        self,
        trainable: Callable[[dict[str, Any]], Any],
        *,
        param_space: Mapping[str, Any],
        tune_config: TuneConfig,
        run_config: RunConfig,
        client: Client | None = None,
    ) -> None:
        """Packs the function, and checks the whole Experiment; nothing is created yet.

        Args:
            trainable: `def train(config)`, which returns a dict of metrics, yields several, or calls
                `podtune.trial.report`.
            param_space: A domain for each parameter, such as `tune.uniform(0, 1)`; other values are fixed.
            tune_config: What to optimise, and how to search.
            run_config: In what image the trials run, and when they stop.
            client: The cluster; without it that of the kubeconfig.

        Raises:
            PackingError: The function, or what it uses, can't travel.
            InvalidArgument: Something makes no sense; the text names it.
        """
        for name, given, kind in (("tune_config", tune_config, TuneConfig), ("run_config", run_config, RunConfig)):
            if not isinstance(given, kind):
                raise InvalidArgument(f"{name}: {given!r:.64} is no {kind.__name__}; write tune.{kind.__name__}(…)")
        if client is not None and not isinstance(client, Client):
            raise InvalidArgument(f"client: {client!r:.64} is no Client; write Client(…), or leave it out")
        self._client = client
        self.experiment: Experiment = Experiment.from_function(
            trainable,
            name=run_config.name,
            metric=tune_config.metric,
            mode=tune_config.mode,
            parameters=read_param_space(param_space),
            image=run_config.image,
            modules=run_config.modules,
            env=run_config.env,
            resources=run_config.describe_resources(),
            search=tune_config.describe_search(param_space),
            scheduler=tune_config.describe_scheduler(),
            store=run_config.describe_store(),
            max_concurrent_trials=tune_config.max_concurrent_trials,
            namespace=run_config.namespace,
            spec=merge_fields(describe_run(tune_config, run_config), run_config.spec or {}),
        )
        """The Experiment: its `to_yaml` is for Git, and `fit` creates it."""

    @classmethod
    def restore(cls, name: str, *, namespace: str | None = None, client: Client | None = None) -> Tuner:
        """Takes up a search that is in the cluster already; `fit` waits for its end.

        Args:
            name: Name of the Experiment.
            namespace: Its namespace; that of the client where it is left out.
            client: The cluster; without it that of the kubeconfig.

        Raises:
            ObjectNotFound: There is none.
        """
        tuner = cls.__new__(cls)
        tuner._client = client or Client()
        tuner.experiment = tuner._client.get(name, namespace=namespace)
        return tuner

    def fit(self, timeout: float | str | None = None) -> ResultGrid:
        """Creates the Experiment, unless it is there already, and waits for its end.

        Args:
            timeout: How long to wait at most: seconds, or a duration such as 90s.

        Returns:
            The results of all trials, of failed ones, too.

        Raises:
            WaitTimeout: It goes on after that time; a second `fit` waits on.
            ExperimentFailed: It waits for a correction, or was deleted.
            PodtuneError: The API server refuses it, or does not answer.
        """
        seconds = read_seconds(timeout)
        if not self.experiment.is_created:
            (self._client or Client()).create(self.experiment)
        try:
            snapshot = self.experiment.watch().wait(seconds)
        except KeyboardInterrupt as error:
            error.add_note(
                f"Experiment {self.experiment.name} goes on in the cluster: fit() waits on, also after "
                f"Tuner.restore({self.experiment.name!r}), and experiment.stop() ends it"
            )
            raise
        if snapshot.state != ExperimentState.FAILED:
            snapshot.check_outcome()
        return ResultGrid(self.experiment, snapshot)

    def get_results(self) -> ResultGrid:
        """The results so far.

        Raises:
            NotCreated: Nothing has been started yet.
        """
        return ResultGrid(self.experiment, self.experiment.read())
