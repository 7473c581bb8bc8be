"""How a `Tuner` searches and runs, in the words of Ray Tune; and what the manifest makes of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Real
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

from podtune.client.errors import InvalidArgument
from podtune.client.tune.schedulers import TrialScheduler
from podtune.client.tune.space import find_grid

_MOST_FAILURES = 1000
"""What `max_failures=-1`, which means without a limit, comes to."""
_RESOURCES = {"CPU": "cpu", "gpu": "nvidia.com/gpu", "GPU": "nvidia.com/gpu"}
"""Kubernetes' names for what Ray calls otherwise."""
_SHARED = frozenset({"cpu", "memory", "ephemeral-storage"})
"""What a node's scheduler counts by requests; of devices, the limit is the request."""


@dataclass(frozen=True, slots=True)
class TuneConfig:
    """What to optimise, and how to search.

    Attributes:
        metric: Name of the objective among the metrics that the function reports.
        mode: Whether more of it is better (max) or less (min).
        num_samples: How many trials; of a grid, how often each point is trained, each time with another seed and, of
            parameters that are not on the grid, other draws. -1 for as many as `time_budget_s` allows.
        search_alg: Name of a search algorithm, such as "tpe" or "random", or the field `search` of a manifest.
        scheduler: Which trials go on; the field `scheduler` of a manifest will do.
        max_concurrent_trials: How many trials have a pod at the same time.
        time_budget_s: The experiment ends after so many seconds.
        seed: Of all random draws: the same seed gives the same proposals.
    """

    metric: str
    mode: Literal["max", "min"]
    num_samples: int = 1
    search_alg: str | Mapping[str, Any] | None = None
    scheduler: TrialScheduler | Mapping[str, Any] | None = None
    max_concurrent_trials: int | None = None
    time_budget_s: float | timedelta | None = None
    seed: int = 0

    def describe_search(self, param_space: Mapping[str, Any]) -> dict[str, Any]:
        """The field `search` of the manifest.

        Raises:
            InvalidArgument: The values don't go with each other.
        """
        if isinstance(self.num_samples, bool) or not isinstance(self.num_samples, int) or self.num_samples < -1:
            raise InvalidArgument(
                f"num_samples: {self.num_samples!r} is no number of trials; write 1 or more, or -1 for no limit"
            )
        if self.num_samples == -1 and self.time_budget_s is None:
            raise InvalidArgument("num_samples: -1 never ends by itself; set time_budget_s, or a number of trials")
        if self.search_alg is not None and not isinstance(self.search_alg, str | Mapping):
            raise InvalidArgument(
                f"search_alg: {self.search_alg!r:.64} is no search algorithm of Podtune; name one, such as tpe or "
                'random, or write the field of a manifest, such as {"algorithm": "tpe"}'
            )
        given = {"algorithm": self.search_alg} if isinstance(self.search_alg, str) else self.search_alg or {}
        search: dict[str, Any] = {"seed": self.seed, **given}
        grid = find_grid(param_space)
        if grid is None:
            return {"maxTrials": "unlimited" if self.num_samples == -1 else self.num_samples, **search}
        if self.search_alg is not None:
            raise InvalidArgument(
                f"search_alg={self.search_alg!r} can't be combined with grid_search; write choice in its place, or "
                "remove it"
            )
        if not grid.is_whole:
            trials = "unlimited" if self.num_samples == -1 else grid.size * self.num_samples
            return {"algorithm": "grid", **search, "grid": {"parameters": [*grid.names]}, "maxTrials": trials}
        if self.num_samples == -1:
            raise InvalidArgument("num_samples=-1 can't be combined with grid_search alone, which ends; give a number")
        return {"algorithm": "grid", **search, "maxTrials": grid.size * self.num_samples, "repeats": self.num_samples}

    def describe_scheduler(self) -> Mapping[str, Any] | None:
        """The field `scheduler` of the manifest; None for its default."""
        if self.scheduler is None or isinstance(self.scheduler, Mapping):
            return self.scheduler
        if not hasattr(self.scheduler, "describe"):
            raise InvalidArgument(
                f"scheduler: {self.scheduler!r:.64} is no scheduler of Podtune; write tune.ASHAScheduler(…), or the "
                'field of a manifest, such as {"asha": {"maxTime": 27}}'
            )
        return self.scheduler.describe()


@dataclass(frozen=True, slots=True)
class FailureConfig:
    """What is done about failed attempts.

    Attributes:
        max_failures: How often a trial is retried after it has failed by itself; -1 for without a limit.
        fail_fast: Whether the first trial that ends in an error ends all.
    """

    max_failures: int = 0
    fail_fast: bool = False

    def describe(self) -> dict[str, Any]:
        """The field `failures` of the manifest."""
        most = _MOST_FAILURES if self.max_failures == -1 else self.max_failures
        return {"maxFailures": most, "failFast": self.fail_fast}


@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """Which checkpoints of a trial are kept.

    Attributes:
        num_to_keep: How many.
        checkpoint_score_attribute: The objective's metric, to keep the best ones; without it the latest are kept.
    """

    num_to_keep: int = 2
    checkpoint_score_attribute: str | None = None

    def describe(self, metric: str) -> dict[str, Any]:
        """The field `checkpoints.keep` of the manifest.

        Raises:
            InvalidArgument: They are to be ranked by something else than the objective.
        """
        if self.checkpoint_score_attribute not in (None, metric):
            raise InvalidArgument(
                f"checkpoint_score_attribute: {self.checkpoint_score_attribute!r} is not the objective; name "
                f"{metric!r}, or leave it out to keep the latest ones"
            )
        return {"count": self.num_to_keep, "by": "latest" if self.checkpoint_score_attribute is None else "best"}


@dataclass(frozen=True, slots=True)
class RunConfig:
    """In what the trials run, and when they stop.

    Attributes:
        image: The image of their pods, with Python 3.8 or later and what the function imports.
        name: Name of the Experiment; made from the function's name where it is left out.
        namespace: Its namespace; that of the kubeconfig where it is left out.
        resources: What a trial takes: {"cpu": 2, "memory": "4Gi", "gpu": 1}.
        env: Environment variables of the function.
        modules: Modules of yours that the function imports.
        storage_path: Where checkpoints go: an address such as s3://bucket/prefix, or the field `checkpoints.store` of a
            manifest. Nothing is stored without it.
        stop: A trial is stopped when one of these metrics has reached its value.
        failure_config: What is done about failed attempts.
        checkpoint_config: Which checkpoints are kept.
        spec: Any further fields of the manifest's spec.
    """

    image: str
    name: str | None = None
    namespace: str | None = None
    resources: Mapping[str, Any] | None = None
    env: Mapping[str, str] | None = None
    modules: Sequence[ModuleType] = ()
    storage_path: str | Mapping[str, Any] | None = None
    stop: Mapping[str, float] | None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    spec: Mapping[str, Any] | None = None

    def describe_resources(self) -> dict[str, Any] | None:
        """The field `resources` of the training container: requests for what is shared, limits for what is not.

        Raises:
            InvalidArgument: They are no dict.
        """
        _check_kind("resources", self.resources, Mapping, 'a dict, such as {"cpu": 2, "gpu": 1}')
        amounts = {_RESOURCES.get(name, name): amount for name, amount in (self.resources or {}).items()}
        if not amounts:
            return None
        requests = {name: amount for name, amount in amounts.items() if name in _SHARED}
        limits = {name: amount for name, amount in amounts.items() if name != "cpu"}
        return {"requests": requests, "limits": limits}

    def describe_store(self) -> Mapping[str, Any] | None:
        """The field `checkpoints.store` of the manifest.

        Raises:
            InvalidArgument: It is no address that says all that is needed.
        """
        if not isinstance(self.storage_path, str):
            return self.storage_path
        address = urlsplit(self.storage_path)
        if address.scheme != "s3" or not address.netloc:
            raise InvalidArgument(
                f"storage_path: {self.storage_path!r} is not the address of an S3 bucket, such as s3://bucket/prefix; "
                "write other stores as in checkpoints.store of a manifest"
            )
        return {"bucket": address.netloc, "prefix": address.path.strip("/")}


def describe_run(tune_config: TuneConfig, run_config: RunConfig) -> dict[str, Any]:
    """The fields of the manifest's spec that say when trials and the experiment end, and what is kept.

    Raises:
        InvalidArgument: A value makes no sense.
    """
    spec: dict[str, Any] = {}
    stop: dict[str, Any] = {}
    if run_config.stop is not None:
        if not isinstance(run_config.stop, Mapping):
            raise InvalidArgument(
                f"stop: {run_config.stop!r:.64} is no dict of metrics and values; other rules go into "
                'spec={"stop": …}, as docs/how-to/stop-when-enough.md has them'
            )
        stop["metrics"] = dict(run_config.stop)
    if tune_config.time_budget_s is not None:
        budget = tune_config.time_budget_s
        _check_kind("time_budget_s", budget, (Real, timedelta), "seconds, or a timedelta")
        seconds = budget.total_seconds() if isinstance(budget, timedelta) else budget
        stop["totalTime"] = f"{math.ceil(seconds)}s"
    if stop:
        spec["stop"] = stop
    _check_kind("failure_config", run_config.failure_config, FailureConfig, "a tune.FailureConfig(…)")
    _check_kind("checkpoint_config", run_config.checkpoint_config, CheckpointConfig, "a tune.CheckpointConfig(…)")
    _check_kind("spec", run_config.spec, Mapping, 'a dict of fields, such as {"maxConcurrentTrials": 4}')
    if run_config.failure_config is not None:
        spec["failures"] = run_config.failure_config.describe()
    if run_config.checkpoint_config is not None:
        spec["checkpoints"] = {"keep": run_config.checkpoint_config.describe(tune_config.metric)}
    return spec


def _check_kind(argument: str, given: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuses what is neither left out nor of a kind."""
    if given is not None and not isinstance(given, kinds):
        raise InvalidArgument(f"{argument}: {given!r:.64} is of type {type(given).__name__}; give {wanted}")
