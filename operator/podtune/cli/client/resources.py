"""Experiments and Trials as the commands read them.

A status is read by the operator's own model, which passes over what a newer operator has added. A spec stays as it was
written: its models refuse what they do not know, and a newer operator's resources have to be shown too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.api.conditions import Condition, find_condition
from podtune.api.names import ANNOTATION_AUTHOR, ANNOTATION_FORMER, ConditionType, TrialReason, TrialState
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import ProposalSource, TrialStatus
from podtune.api.resources.trial_numbers import read_index
from podtune.cli.client.api_client import Api
from podtune.cli.errors import CliError, NoSuchObject
from podtune.kube import paths
from podtune.kube.answers import read_status
from podtune.kube.errors import ResourceNotFound
from podtune.kube.manifests import Manifest, select_experiment

NO_DEFINITIONS = "this cluster does not know Experiments; install the chart podtune-crds"


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """One Experiment.

    Attributes:
        state: As the status has it, which may be a newer operator's word; empty before an operator has seen it.
        former: What it was before it was imported or restored, see `list_former_folders`; empty where it was not.
    """

    name: str
    namespace: str
    created: str
    spec: Mapping[str, Any]
    state: str
    status: ExperimentStatus
    uid: str = ""
    former: str = ""

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
    def curve_metrics(self) -> list[str]:
        """What learning curves show: the objectives; of trials that are evaluated, that of training alone."""
        training = (self.spec.get("evaluation") or {}).get("trainingObjective") or {}
        return [str(training["metric"])] if training.get("metric") else list(self.objectives)

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
        if isinstance(self.max_trials, str):
            return self.max_trials
        counts = self.status.trials
        return max(self.max_trials + counts.added, counts.total)

    @property
    def finished_trials(self) -> int:
        """How many trials have come to an end."""
        return self.status.trials.terminated + self.status.trials.error

    def find_true(self, type_: ConditionType) -> Condition | None:
        """The condition, where it is True."""
        condition = find_condition(self.status.conditions, type_)
        return condition if condition is not None and condition.status == "True" else None


@dataclass(frozen=True, slots=True)
class TrialView:
    """One Trial.

    Attributes:
        display_name: Its name for people; empty where it has none.
        state: As the status has it, which may be a newer operator's word.
        requested_checkpoint: Id of the last request for a checkpoint; empty where there was none.
        proposer: Who has proposed its configuration; empty where that is not on record.
        created: When it was made; empty where that is not on record.
    """

    name: str
    experiment: str
    index: int
    display_name: str
    proposed: Mapping[str, str]
    state: str
    status: TrialStatus
    requested_checkpoint: str = ""
    proposer: str = ""
    created: str = ""

    @property
    def title(self) -> str:
        """Its name, and the one for people where it has one."""
        return f"{self.name} ({self.display_name})" if self.display_name else self.name

    @property
    def parameters(self) -> Mapping[str, str]:
        """Those that it runs with now."""
        return self.status.parameters or self.proposed

    @property
    def pod(self) -> str:
        """Name of the pod of its current or last attempt; empty where it has had none."""
        return self.status.pod.name if self.status.pod else ""

    @property
    def node(self) -> str:
        """Node of that pod."""
        return self.status.pod.node if self.status.pod else ""

    @property
    def log_tail(self) -> str:
        """What the program of its last attempt has printed last, where that has failed."""
        return self.status.last_attempt.log_tail if self.status.last_attempt else ""

    @property
    def tail_attempt(self) -> int:
        """Number of that attempt."""
        return self.status.last_attempt.attempt if self.status.last_attempt else 0

    def find_revision(self, experiment: ExperimentView) -> str:
        """The revision of the trial template that its current or last attempt was made from; empty if not known."""
        template = experiment.status.template
        return self.status.revision or (template.first if template is not None else "")

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
        return self.state == TrialState.ERROR or self.status.reason == TrialReason.BACKING_OFF


def read_experiment(item: Manifest) -> ExperimentView:
    """Reads an Experiment as the API server gives it."""
    metadata, status = item["metadata"], item.get("status") or {}
    return ExperimentView(
        name=metadata["name"],
        namespace=metadata.get("namespace", ""),
        created=metadata.get("creationTimestamp", ""),
        spec=item.get("spec") or {},
        state=status.get("state") or "",
        status=read_status(ExperimentStatus, status),
        uid=metadata.get("uid", ""),
        former=(metadata.get("annotations") or {}).get(ANNOTATION_FORMER, ""),
    )


def read_trial(item: Manifest) -> TrialView:
    """Reads a Trial as the API server gives it."""
    metadata, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    return TrialView(
        name=metadata["name"],
        experiment=spec.get("experiment", ""),
        index=read_index({"name": metadata["name"], "spec": spec}),
        display_name=spec.get("displayName", ""),
        proposed=spec.get("parameters") or {},
        state=status.get("state") or TrialState.PENDING,
        status=read_status(TrialStatus, status),
        requested_checkpoint=(spec.get("checkpointRequest") or {}).get("id", ""),
        proposer=_describe_proposer(item),
        created=metadata.get("creationTimestamp", ""),
    )


def _describe_proposer(item: Manifest) -> str:
    """Who has proposed a configuration, by what its Trial records of it."""
    spec = item.get("spec") or {}
    proposal = spec.get("proposal") or {}
    if "index" not in spec and (author := _find_author(item["metadata"])):
        return f"a person, {author} by their own account"
    match proposal.get("source"):
        case ProposalSource.INITIAL:
            return f"search.initial[{proposal.get('position', 0)}]"
        case ProposalSource.SEARCHER:
            return "the search algorithm"
        case _:
            return ""


def _find_author(metadata: Mapping[str, Any]) -> str:
    """Who says to have made an object: in our annotation, or the program that set its spec first."""
    if author := (metadata.get("annotations") or {}).get(ANNOTATION_AUTHOR):
        return str(author)
    managers = [
        entry.get("manager", "")
        for entry in metadata.get("managedFields") or ()
        if "f:parameters" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    ]
    return next(iter(managers), "somebody")


def fetch_experiment(api: Api, namespace: str, name: str) -> Manifest:
    """Fetches one Experiment, as the API server gives it.

    Raises:
        CliError: There is none.
        ApiError: The server can't say.
    """
    try:
        return api.get(paths.experiment(namespace, name))
    except ResourceNotFound as error:
        raise NoSuchObject(f"no Experiment {name!r} in namespace {namespace!r}; `podtune list -A` shows all") from error


def get_experiment(api: Api, namespace: str, name: str) -> ExperimentView:
    """Reads one Experiment; raises as `fetch_experiment`."""
    return read_experiment(fetch_experiment(api, namespace, name))


def get_trial(api: Api, namespace: str, name: str) -> TrialView:
    """Reads one Trial; raises as `read_trial_with_spec`."""
    return read_trial_with_spec(api, namespace, name)[0]


def read_trial_with_spec(api: Api, namespace: str, name: str) -> tuple[TrialView, Mapping[str, Any]]:
    """Reads one Trial, and its spec as it is written.

    Raises:
        CliError: There is none.
        ApiError: The server can't say.
    """
    try:
        item = api.get(paths.trial(namespace, name))
        return read_trial(item), item.get("spec") or {}
    except ResourceNotFound as error:
        raise NoSuchObject(
            f"no Trial {name!r} in namespace {namespace!r}; `podtune describe EXPERIMENT` shows an experiment's trials"
        ) from error


def list_experiments(api: Api, namespace: str | None) -> list[ExperimentView]:
    """Reads the Experiments of a namespace, or with None all.

    Raises:
        CliError: The server does not know Experiments.
        ApiError: It can't say.
    """
    try:
        items = api.list_all(paths.experiments(namespace or ""))
    except ResourceNotFound as error:
        raise CliError(NO_DEFINITIONS) from error
    return sorted((read_experiment(item) for item in items), key=lambda view: (view.namespace, view.name))


def list_trials(api: Api, namespace: str, experiment: str) -> list[TrialView]:
    """Reads an Experiment's Trials, by their index.

    Raises:
        ApiError: The server can't say.
    """
    items = api.list_all(paths.trials(namespace), select_experiment(experiment))
    return sorted((read_trial(item) for item in items), key=lambda view: view.index)
