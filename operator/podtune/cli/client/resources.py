"""Experiments and Trials as the commands show them.

Not the models of `podtune.api`: those refuse a field that they don't know, and a newer operator's resources have to be
shown too. What is missing is empty here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from podtune.api.names import (
    LABEL_EXPERIMENT,
    ConditionType,
    TrialReason,
    TrialState,
)
from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError, NotFound
from podtune.kube import paths

Object = Mapping[str, Any]
NO_DEFINITIONS = "this cluster does not know Experiments; install the chart podtune-crds"


@dataclass(frozen=True, slots=True)
class Counts:
    """How many trials are in which state."""

    total: int = 0
    pending: int = 0
    running: int = 0
    paused: int = 0
    done: int = 0
    failed: int = 0
    stopped_early: int = 0

    @property
    def finished(self) -> int:
        """Trials that came to an end."""
        return self.done + self.failed


@dataclass(frozen=True, slots=True)
class Best:
    """The best result so far."""

    trial: str
    value: str
    parameters: Mapping[str, str]
    checkpoint: str
    spread: str = ""
    exported: str = ""
    repeats: int = 0

    @property
    def whole_value(self) -> str:
        """The value, and how much it differs between repeats."""
        return f"{self.value} ± {self.spread}" if self.repeats else self.value

    @property
    def holder(self) -> str:
        """Whose value it is."""
        return f"{self.trial} and {self.repeats - 1} more repeats" if self.repeats else self.trial


@dataclass(frozen=True, slots=True)
class ConditionView:
    """One condition."""

    type: str
    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class FrontView:
    """A trial of the Pareto front, with its values as the status writes them."""

    trial: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """One Experiment; `spec` is as it was written, for what is only passed on."""

    name: str
    namespace: str
    created: str
    spec: Object
    state: str
    message: str
    counts: Counts
    best: Best | None
    front: tuple[FrontView, ...]
    conditions: tuple[ConditionView, ...]
    start_time: str
    completion_time: str

    @property
    def metric(self) -> str:
        """Name of the objective's metric."""
        return str(self.spec.get("objective", {}).get("metric", ""))

    @property
    def time_attribute(self) -> str:
        """What counts the progress of trials, where the scheduler's settings name something."""
        settings = [given for given in self.spec.get("scheduler", {}).values() if isinstance(given, dict)]
        return next((str(given["timeAttribute"]) for given in settings if "timeAttribute" in given), "")

    @property
    def objectives(self) -> Mapping[str, str]:
        """What is better, max or min, by metric."""
        objective = self.spec.get("objective", {})
        criteria = [objective, *(objective.get("others") or ())]
        return {str(criterion.get("metric", "")): str(criterion.get("mode", "")) for criterion in criteria}

    @property
    def parameters(self) -> list[str]:
        """Names of the parameters, in the order of the manifest."""
        return [parameter["name"] for parameter in self.spec.get("parameters", ())]

    @property
    def max_trials(self) -> int | str:
        """How many trials are made at most, as the manifest has it: a number, or unlimited."""
        limit: int | str = self.spec.get("search", {}).get("maxTrials", 0)
        return limit

    @property
    def expected_trials(self) -> int | str:
        """How many trials there will be: those that were made before maxTrials was lowered stay."""
        return self.max_trials if isinstance(self.max_trials, str) else max(self.max_trials, self.counts.total)

    def holds(self, condition: ConditionType) -> ConditionView | None:
        """The condition, where it is True."""
        return next((c for c in self.conditions if c.type == condition and c.status == "True"), None)


@dataclass(frozen=True, slots=True)
class DecisionView:
    """One entry of a trial's ledger."""

    number: int
    time: str
    attempt: int
    step: int
    action: str
    message: str
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialView:
    """One Trial; `parameters` are those that it runs with now, `proposed` those of its spec."""

    name: str
    experiment: str
    index: int
    created: str
    parameters: Mapping[str, str]
    state: str
    reason: str
    message: str
    attempt: int
    failures: int
    pod: str
    node: str
    last_result: Mapping[str, str]
    best_value: str
    checkpoint: str
    log_tail: str
    tail_attempt: int
    proposed: Mapping[str, str]
    conditions: tuple[ConditionView, ...]
    ledger: tuple[DecisionView, ...]

    @property
    def is_running(self) -> bool:
        """Whether it trains at present."""
        return self.state == TrialState.RUNNING

    @property
    def has_ended(self) -> bool:
        """Whether it has come to a good or a bad end."""
        return self.state in (TrialState.TERMINATED, TrialState.ERROR)

    @property
    def has_failed(self) -> bool:
        """Whether it has come to a bad end, or waits for another attempt after one."""
        return self.state == TrialState.ERROR or self.reason == TrialReason.BACKING_OFF


def read_experiment(item: Object) -> ExperimentView:
    """Reads an Experiment as the API server gives it."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    trials = status.get("trials") or {}
    best = status.get("best")
    return ExperimentView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        created=metadata.get("creationTimestamp", ""),
        spec=spec,
        state=status.get("state") or "",
        message=status.get("message") or "",
        counts=Counts(
            total=trials.get("total", 0),
            pending=trials.get("pending", 0),
            running=trials.get("running", 0),
            paused=trials.get("paused", 0),
            done=trials.get("terminated", 0),
            failed=trials.get("error", 0),
            stopped_early=trials.get("stoppedEarly", 0),
        ),
        front=tuple(
            FrontView(entry.get("trial", ""), entry.get("values") or {}) for entry in status.get("paretoFront") or ()
        ),
        best=None
        if not best
        else Best(
            trial=best.get("trial", ""),
            value=best.get("value", ""),
            parameters=best.get("parameters") or {},
            checkpoint=best.get("checkpoint") or "",
            exported=best.get("exported") or "",
            spread=best.get("spread") or "",
            repeats=best.get("repeats") or 0,
        ),
        conditions=_conditions(status),
        start_time=status.get("startTime") or "",
        completion_time=status.get("completionTime") or "",
    )


def read_trial(item: Object) -> TrialView:
    """Reads a Trial as the API server gives it."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    pod, last = status.get("pod") or {}, status.get("lastAttempt") or {}
    return TrialView(
        name=metadata["name"],
        experiment=spec.get("experiment", ""),
        index=spec.get("index", 0),
        created=metadata.get("creationTimestamp", ""),
        parameters=status.get("parameters") or spec.get("parameters") or {},
        state=status.get("state") or TrialState.PENDING,
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        attempt=status.get("attempt", 0),
        failures=status.get("failures", 0),
        pod=pod.get("name", ""),
        node=pod.get("node", ""),
        last_result=status.get("lastResult") or {},
        best_value=status.get("bestValue") or "",
        checkpoint=(status.get("checkpoint") or {}).get("uri", ""),
        log_tail=last.get("logTail", ""),
        tail_attempt=last.get("attempt", 0),
        proposed=spec.get("parameters") or {},
        conditions=_conditions(status),
        ledger=tuple(
            DecisionView(
                number=entry.get("number", 0),
                time=entry.get("time", ""),
                attempt=entry.get("attempt", 0),
                step=entry.get("step", 0),
                action=entry.get("action", ""),
                message=entry.get("message", ""),
                inputs=entry.get("inputs") or {},
            )
            for entry in status.get("ledger") or ()
        ),
    )


def _conditions(status: Object) -> tuple[ConditionView, ...]:
    return tuple(
        ConditionView(c.get("type", ""), c.get("status", ""), c.get("reason", ""), c.get("message", ""))
        for c in status.get("conditions") or ()
    )


def experiments_path(namespace: str | None, name: str = "") -> str:
    """Where Experiments are: one, those of a namespace, or all."""
    if name:
        return paths.experiment(namespace or "", name)
    return paths.experiments(namespace or "")


def trials_path(namespace: str, name: str = "") -> str:
    """Where Trials are: one, or those of a namespace."""
    return paths.trial(namespace, name) if name else paths.trials(namespace)


def of_experiment(name: str) -> dict[str, str]:
    """The query for an Experiment's Trials."""
    return {"labelSelector": f"{LABEL_EXPERIMENT}={name}"}


def get_experiment(api: Api, namespace: str, name: str) -> ExperimentView:
    """Reads one Experiment.

    Raises:
        CliError: There is none, or the server can't say.
    """
    try:
        return read_experiment(api.get(experiments_path(namespace, name)))
    except NotFound as error:
        raise CliError(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all") from error


def get_trial(api: Api, namespace: str, name: str) -> TrialView:
    """Reads one Trial.

    Raises:
        CliError: There is none, or the server can't say.
    """
    try:
        return read_trial(api.get(trials_path(namespace, name)))
    except NotFound as error:
        raise CliError(
            f"no Trial {name!r} in namespace {namespace!r}; `podtune describe EXPERIMENT` shows an experiment's trials"
        ) from error


def list_experiments(api: Api, namespace: str | None) -> list[ExperimentView]:
    """Reads the Experiments of a namespace, or with None all.

    Raises:
        CliError: The server can't say, or does not know Experiments.
    """
    try:
        items = api.list_all(experiments_path(namespace))
    except NotFound as error:
        raise CliError(NO_DEFINITIONS) from error
    return sorted((read_experiment(item) for item in items), key=lambda view: (view.namespace, view.name))


def list_trials(api: Api, namespace: str, experiment: str) -> list[TrialView]:
    """Reads an Experiment's Trials, by their index.

    Raises:
        CliError: The server can't say.
    """
    items = api.list_all(trials_path(namespace), of_experiment(experiment))
    return sorted((read_trial(item) for item in items), key=lambda view: view.index)


def short(text: str) -> str:
    """A number with the five digits that matter in a table; anything else as it is."""
    try:
        number = float(text)
    except ValueError:
        return text
    return text if number.is_integer() else f"{number:.5g}"


def age(since: str, now: datetime) -> str:
    """How long ago something was, as kubectl writes it: 45s, 12m, 5h, 3d."""
    if not since:
        return ""
    elapsed = max(0, int((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds()))
    if elapsed < 120:
        return f"{elapsed}s"
    for length, unit, limit in ((60, "m", 120), (3600, "h", 48)):
        if elapsed < length * limit:
            return f"{elapsed // length}{unit}"
    return f"{elapsed // 86400}d"
