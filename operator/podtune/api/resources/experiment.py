"""The Experiment resource: what to tune, how to search, when to stop, and the pod of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Size, StatusModel, key_by, parse_duration
from podtune.api.conditions import MAX_MESSAGE, Condition
from podtune.api.expressions.expression import ExpressionText
from podtune.api.json_values import MAX_VALUE_TEXT
from podtune.api.names import ExperimentState
from podtune.api.object_names import RecordedName
from podtune.api.pods.limit_names import check_limit_roles
from podtune.api.pods.parameter_text import check_parameter_text
from podtune.api.pods.pod_template import check_claim_references, check_secret_references
from podtune.api.pods.pod_values import check_references
from podtune.api.pods.quantities import parse_size
from podtune.api.resources.checkpoints import Checkpoints
from podtune.api.resources.evaluation import EvaluationSpec, check_evaluation
from podtune.api.resources.failures import Failures
from podtune.api.resources.gang_roles import RankedRole
from podtune.api.resources.results import Results
from podtune.api.resources.resume import Resume, Resumption
from podtune.api.resources.storage_jobs import StorageStatus
from podtune.api.resources.trial_template import TemplateStatus, TrialTemplate
from podtune.api.trackers import Trackers
from podtune.api.transitions import Transitions
from podtune.api.tuning.compatibility import check_combination
from podtune.api.tuning.configuration import ConfigurationRules
from podtune.api.tuning.domain_values import check_finite
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.population import check_population
from podtune.api.tuning.scheduler import FifoSettings, SchedulerSpec
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_checks import check_search
from podtune.api.tuning.search_space import Parameter
from podtune.api.tuning.stop import Stop

MAX_NAME = 52
"""Longest name of an Experiment: `<name>-<index>-<attempt>` has to fit into the 63 characters of a label."""


class KeptLogs(ApiModel):
    """How the output of training containers is kept."""

    keep: Size = Field(
        default="0",
        description=(
            "How much of an attempt's output to keep in checkpoints.store, for each pod, such as 8Mi: the first half "
            "and the latest half of that. The agent stores new lines every ten seconds. 0, the default, stores none. A "
            "change applies to pods that are created after it."
        ),
    )

    @property
    def is_kept(self) -> bool:
        """Whether anything is kept."""
        return parse_size(self.keep) > 0


_SHORTEST_PERIOD = 5.0


class Snapshot(ApiModel):
    """How the Experiment and its Trials are themselves kept in the store."""

    period: Duration = Field(
        default="5m",
        description=(
            "How often to store what has changed of the Experiment and its Trials, at most: as much can be lost with "
            "the cluster. Agents store it with results; where a trial has no pod, a storage pod does. 0s stores none; "
            "otherwise 5s or more. Agents that run go on with the period that they have started with."
        ),
    )

    @field_validator("period")
    @classmethod
    def _is_not_too_short(cls, period: str) -> str:
        if 0 < parse_duration(period) < _SHORTEST_PERIOD:
            raise ValueError(f"{period!r} is too short; write {_SHORTEST_PERIOD:g}s or more, or 0s to store none")
        return period

    @property
    def seconds(self) -> float:
        """The period in seconds; 0 where no snapshots are stored."""
        return parse_duration(self.period)


class ExperimentSpec(ApiModel):
    """The specification of the experiment."""

    objective: Objective = Field(description="The objective to optimise.")
    parameters: list[Parameter] = Field(
        min_length=1,
        max_length=64,
        description="The search space, with one entry per parameter.",
        json_schema_extra=key_by("name"),
    )
    constraints: list[ExpressionText] = Field(
        default_factory=list,
        max_length=32,
        description=(
            "Conditions that every configuration must meet, such as batch_size * workers <= 1024. Configurations that "
            "break one are never proposed. A constraint does not apply to a configuration that lacks one of its "
            "parameters."
        ),
    )
    search: SearchSpec = Field(description="How configurations are proposed.")
    scheduler: SchedulerSpec = Field(
        default_factory=lambda: SchedulerSpec(fifo=FifoSettings()), description="Which trials continue."
    )
    stop: Stop = Field(default_factory=Stop, description="When to stop a trial or the experiment.")
    suspend: bool = Field(
        default=False,
        description=(
            "If true, no trial has a pod: running trials are paused with a checkpoint and resume when this is false "
            "again. Without checkpoints.store they start from scratch. Time budgets don't count the time in between."
        ),
    )
    resume: Resume | None = Field(default=None, description="How the experiment resumes after it has ended.")
    max_concurrent_trials: int = Field(
        default=3, ge=1, le=10_000, description="How many trials may have a pod at the same time."
    )
    max_pending_trials: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description=(
            "How many trials may have a pod that has not started its program yet. Without it, only maxConcurrentTrials "
            "limits them. In a full cluster, it keeps one experiment's pods from crowding the scheduler's queue."
        ),
    )
    failures: Failures = Field(default_factory=Failures, description="How failed attempts are handled.")
    checkpoints: Checkpoints = Field(default_factory=Checkpoints, description="Where checkpoints are stored.")
    results: Results = Field(default_factory=Results, description="How results are read and kept.")
    logs: KeptLogs = Field(default_factory=KeptLogs, description="How the output of training containers is kept.")
    snapshot: Snapshot = Field(
        default_factory=Snapshot,
        description="How the Experiment and its Trials are kept in checkpoints.store, to restore them from it.",
    )
    trackers: Trackers = Field(default_factory=Trackers, description="Trackers of experiments that hear of trials.")
    pod_retention: Literal["None", "Failed", "All"] = Field(
        default="Failed",
        description=(
            "Which finished pods to keep for inspection until podRetentionTime after the experiment ends: none, the "
            "last failed pod of each trial, or all. Other pods are deleted ten minutes after they end, or sooner if "
            "there are too many."
        ),
    )
    pod_retention_time: Duration = Field(
        default="1h",
        description=(
            "How long to keep the pods of podRetention after the experiment ends; with 0s they are deleted then. Pods "
            "are kept for at most 250 trials, the latest to end."
        ),
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description=(
            "How long after its end the experiment is deleted, along with its trials. By default it never is. Pending "
            "exports and clean-up in the bucket finish first."
        ),
    )
    trial_template: TrialTemplate = Field(description="Template of the pods that trials run in.")
    evaluation: EvaluationSpec | None = Field(
        default=None,
        description=(
            "A second stage: when a trial's training has ended, one more pod evaluates its checkpoint. The objective "
            "is what that reports. Trials that the scheduler or a person stops early are not evaluated."
        ),
    )

    @cached_property
    def training_objective(self) -> Objective:
        """What trials are compared by while they train: the objective, unless that is known only afterwards."""
        training = self.evaluation.training_objective if self.evaluation is not None else None
        if training is None:
            return self.objective
        return Objective(metric=training.metric, mode=training.mode, missing=self.objective.missing)

    def find_pod_role(self, rank: int, *, evaluates: bool) -> RankedRole:
        """The role that a pod of this rank and stage has, with the template that it is made from."""
        if not evaluates:
            return self.trial_template.find_role(rank)
        return self.list_pod_roles(evaluates=True)[0]

    def list_pod_roles(self, *, evaluates: bool) -> tuple[RankedRole, ...]:
        """The roles of an attempt's pods; an evaluation has one, without a name."""
        if not evaluates:
            return self.trial_template.ranked_roles
        assert self.evaluation is not None  # else nothing is evaluated
        return (self.evaluation.template.role,)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the pods of both stages; of those with the same key, that of training."""
        of_evaluation = self.evaluation.template.metadata.labels if self.evaluation is not None else {}
        return {**of_evaluation, **self.trial_template.labels}

    @property
    def template_revision(self) -> str:
        """A digest of all that the pods of both stages are made from."""
        revision = self.trial_template.revision
        return revision if self.evaluation is None else self.evaluation.template.add_to_revision(revision)

    def _check_store_is_hidden(self) -> None:
        """Checks that trials see neither the store's credentials nor its volume."""
        store = self.checkpoints.store
        if store is None:
            return
        roles = [*self.trial_template.ranked_roles]
        if self.evaluation is not None:
            roles.append(self.evaluation.template.role)
        for role in roles:
            if store.credentials_secret is not None:
                check_secret_references(role.template.spec, store.credentials_secret, role.path)
            if store.volume is not None:
                check_claim_references(role.template.spec, store.volume.claim_name, role.path)

    def _check_limits(self, rules: ConfigurationRules) -> None:
        """Checks what limits are computed from, and whose they are."""
        for role in self.trial_template.ranked_roles:
            for name, expression in role.template.computed_limits.items():
                rules.dependencies.check_names(expression, f"{role.path}.limits.{name}.expression")
        for position, rung in enumerate(self.scheduler.resources):
            path = f"scheduler.resources[{position}].limits"
            check_limit_roles(rung.limits, self.trial_template.role_names, path)

    def _check_results(self) -> None:
        """Checks that each trial's results can be told from those of others, and count once."""
        if self.evaluation is None:
            self.results.check_sources(self.objective.metric)
        if not self.trial_template.reuse:
            return
        if self.results.stdout is not None:
            raise FieldError(
                "results.stdout",
                "is set, but a reused pod prints the output of several trials; remove stdout and report results with "
                "podtune.trial, or remove trialTemplate.reuse",
            )
        for name in self.results.script_sources:
            raise FieldError(
                f"results.{name}",
                f"is set, but a script that reports by it trains one trial only; remove {name} and report results "
                "with podtune.trial, or remove trialTemplate.reuse",
            )

    def _check_trackers(self) -> None:
        """Checks that each trial's run can be told to its program, and that there is a place for event files."""
        if self.trackers.tensor_board is not None and self.checkpoints.store is None:
            raise FieldError(
                "trackers.tensorBoard",
                "is set, but there is no store to put event files in; set checkpoints.store, or remove tensorBoard",
            )
        if self.trackers.wandb is not None and self.trial_template.reuse:
            raise FieldError(
                "trackers.wandb",
                "is set, but the variables of a reused pod are those of its first trial; remove wandb and begin a run "
                "for each trial in the program, or remove trialTemplate.reuse",
            )

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise FieldError("parameters", f"{doubled[0]!r} is listed twice; give each parameter its own name")
        _check_parameters_in_template(self.trial_template, names)
        rules = ConfigurationRules(self.parameters, self.constraints)
        self._check_limits(rules)
        check_search(self.search, rules, self.objective, self.scheduler.name, self.stop)
        if self.search.algorithm == "bruteForce":
            check_finite(self.parameters)
        check_combination(self.objective, self.search, self.scheduler)
        self._check_store_is_hidden()
        store = self.checkpoints.store
        if self.checkpoints.scratch is not None and self.trial_template.pod_count > 1:
            raise FieldError(
                "checkpoints.scratch",
                "is set, but the pods of a gang can't share a volume; remove scratch, or replicas and roles",
            )
        if self.checkpoints.scratch is not None and self.trial_template.reuse:
            raise FieldError(
                "checkpoints.scratch",
                "is set, but a reused pod can't switch to another trial's volume; remove scratch or reuse",
            )
        self._check_results()
        self._check_trackers()
        if self.logs.is_kept and store is None:
            raise FieldError(
                "logs.keep",
                f"is {self.logs.keep}, but there is no store to keep logs in; set checkpoints.store, or remove logs",
            )
        if self.checkpoints.export is not None and store is None:
            raise FieldError("checkpoints.store", "is missing, but checkpoints.export copies from it; set a store")
        needs_store = self.scheduler.needs_store
        if needs_store and store is None:
            raise FieldError(
                "checkpoints.store",
                f"is missing, but scheduler {needs_store} resumes trials from checkpoints; set a store, or use asha",
            )
        origins = [place for place, entry in enumerate(self.search.initial) if entry.restore_from is not None]
        if origins and store is None:
            raise FieldError(
                "checkpoints.store",
                f"is missing, but search.initial[{origins[0]}].restoreFrom reads from it; set a store",
            )
        if self.scheduler.population is not None:
            check_population(*self.scheduler.population, self.search, self.parameters)
        budget = self.stop.counts_gpus
        of_rungs = any(rung.counts_gpus for rung in self.scheduler.resources)
        if budget and not of_rungs and not self.trial_template.may_use_gpus:
            raise FieldError(
                budget,
                "counts GPUs, but the trial's pod requests none; give its container a limit such as nvidia.com/gpu, or "
                "use cost with perPodHour, or time",
            )
        return self

    @model_validator(mode="after")
    def _check_evaluation(self) -> Self:
        if self.evaluation is None:
            return self
        names = [parameter.name for parameter in self.parameters]
        _check_parameters_in_pod(self.evaluation.template.role, names)
        check_evaluation(
            self.evaluation,
            self.objective,
            self.scheduler,
            self.stop,
            self.trial_template,
            has_store=self.checkpoints.store is not None,
        )
        return self


def _check_parameters_in_template(template: TrialTemplate, names: Sequence[str]) -> None:
    """Refuses references to parameters that don't exist."""
    check_parameter_text(template.display_name, "trialTemplate.displayName", names)
    for key, text in template.metadata.labels.items():
        check_parameter_text(text, f"trialTemplate.metadata.labels.{key}", names)
    for role in template.ranked_roles:
        _check_parameters_in_pod(role, names)


def _check_parameters_in_pod(role: RankedRole, names: Sequence[str]) -> None:
    try:
        check_references(role.template.spec, names)
    except FieldError as error:
        raise FieldError(f"{role.path}.spec.{error.path}", error.problem) from error
    for key, text in role.template.metadata.labels.items():
        check_parameter_text(text, f"{role.path}.metadata.labels.{key}", names)


class TrialCounts(StatusModel):
    """How many trials are in which state."""

    total: int = Field(default=0, description="Trials created so far.")
    added: int = Field(default=0, description="Those among them that people have added; maxTrials does not count them.")
    pending: int = Field(default=0, description="Trials waiting for a pod, a node or a retry.")
    running: int = Field(default=0, description="Trials that are running.")
    paused: int = Field(default=0, description="Trials that are paused.")
    terminated: int = Field(default=0, description="Trials that ended without an error.")
    error: int = Field(default=0, description="Trials that ended in ERROR.")
    stopped_early: int = Field(default=0, description="Terminated trials that the scheduler stopped.")


class BestTrial(StatusModel):
    """The best result seen so far."""

    trial: RecordedName = Field(max_length=63, description="Name of the trial.")
    value: str = Field(
        max_length=64, description="Value of the objective's metric; with search.repeats, the mean of the repeats'."
    )
    text: str = Field(
        default="",
        max_length=64,
        description="The value with four digits, for people and kubectl; with search.repeats, and its spread.",
    )
    spread: str = Field(default="", max_length=64, description="Standard deviation of the repeats' values.")
    repeats: int = Field(default=0, ge=0, description="How many repeats the mean is taken over; 0 without repeats.")
    parameters: dict[str, Annotated[str, Field(max_length=MAX_VALUE_TEXT)]] = Field(
        default_factory=dict, max_length=64, description="Its configuration."
    )
    checkpoint: str = Field(default="", max_length=1024, description="URI of the trial's best kept checkpoint.")
    exported: str = Field(
        default="", max_length=1024, description="URI of its exported copy, with a model card (checkpoints.export)."
    )


MAX_AVOIDED_NODES = 16
"""How many nodes are avoided at most."""


class AvoidedNode(StatusModel):
    """A node that no trial is started on for a while."""

    name: str = Field(max_length=253, description="Name of the node.")
    trials: int = Field(ge=0, description="How many trials have failed there.")
    until: str = Field(max_length=32, description="When the node may be used again (RFC 3339).")


MAX_FRONT = 32
"""How many trials of a Pareto front are shown at most."""


class ParetoTrial(StatusModel):
    """A trial of the Pareto front: no other trial beats it in all objectives."""

    trial: RecordedName = Field(
        max_length=63, description="Name of the trial; with search.repeats, of the configuration's first repeat."
    )
    values: dict[str, Annotated[str, Field(max_length=64)]] = Field(
        default_factory=dict, max_length=8, description="Values of the objective's metrics."
    )


class ProposalRequest(StatusModel):
    """The last request to the searcher, written before the searcher is asked."""

    first: int = Field(ge=0, description="Number of the first proposal.")
    last: int = Field(ge=0, description="Number of the last one.")
    observed_seq: int = Field(
        ge=0, description="The searcher had observed everything with a lower sequence number than this."
    )


class PodRefusal(StatusModel):
    """The API server refuses the pods of an experiment, which is held until one is accepted.

    Its message is in the condition Stalled.
    """

    trial: str = Field(max_length=63, description="Name of the trial whose pod was refused last.")
    generation: int = Field(ge=0, description="Generation of the spec when the API server was asked.")
    time: str = Field(max_length=32, description="When the API server was asked last (RFC 3339).")


class ExperimentUsage(StatusModel):
    """Usage of all trials when the status was last written."""

    pod_hours: float = Field(ge=0, description="Total time that pods were on nodes.")
    gpu_hours: float = Field(ge=0, description="The same time, counted for each GPU that they held.")


class ExperimentStatus(StatusModel):
    """What the operator has observed and done. Its size does not depend on the number of trials."""

    observed_generation: int = Field(default=-1, description="Generation of the spec that this status reflects.")
    state: ExperimentState | None = Field(
        default=None, description="State in one word, for people; programs read the conditions."
    )
    message: str = Field(default="", max_length=MAX_MESSAGE, description="The state, in a sentence.")
    trials: TrialCounts = Field(default_factory=TrialCounts, description="Trials by state.")
    best: BestTrial | None = Field(default=None, description="The best result so far.")
    pareto_front: list[ParetoTrial] = Field(
        default_factory=list,
        max_length=MAX_FRONT,
        description=(
            "With several objectives, the Pareto front: finished trials that no other trial beats in every objective, "
            f"sorted by the first. Of more than {MAX_FRONT}, those that are furthest apart."
        ),
    )
    avoided_nodes: list[AvoidedNode] = Field(
        default_factory=list,
        max_length=MAX_AVOIDED_NODES,
        description="Nodes that failed too many trials (failures.avoidNodeAfter), the worst first.",
        json_schema_extra=key_by("name"),
    )
    usage: ExperimentUsage | None = Field(default=None, description="Usage of all trials, as budgets count it.")
    missing_metrics: int = Field(
        default=0,
        ge=0,
        description="Number of results that were skipped because they lacked a metric (objective.missing).",
    )
    lost_checkpoints: int = Field(
        default=0,
        ge=0,
        description="Number of attempts that ended before their last reported checkpoint was stored.",
    )
    proposal_request: ProposalRequest | None = Field(
        default=None,
        description="The last requested proposals. A restarted operator requests the same ones again.",
    )
    pod_refusal: PodRefusal | None = Field(
        default=None,
        description=(
            "The pod that the API server refused last, while it refuses pods. Until it accepts one, no pod is created "
            "and no trial is proposed; the operator tries again every five minutes and after each change of the spec."
        ),
    )
    template: TemplateStatus | None = Field(default=None, description="Revisions of the trial template.")
    storage: StorageStatus | None = Field(
        default=None, description="Jobs that storage pods do in the bucket, such as exports."
    )
    agent_image: str = Field(
        default="",
        max_length=512,
        description="Image of the agent, of which pods are made that read the volume in checkpoints.store.",
    )
    transitions: Transitions | None = Field(
        default=None,
        description="Its latest changes of state, oldest first. Kept only if the operator has webhooks.",
    )
    start_time: str | None = Field(default=None, max_length=32, description="When the first trial was created.")
    suspended_since: str | None = Field(
        default=None, max_length=32, description="When it was suspended; empty if it is not."
    )
    suspended_seconds: int = Field(
        default=0,
        ge=0,
        description="How long it was suspended in earlier suspensions. Time budgets don't count this time.",
    )
    completion_time: str | None = Field(default=None, max_length=32, description="When the experiment ended.")
    ended_by: str = Field(
        default="", max_length=80, description="The limits that ended it. Changing them lets it resume."
    )
    resumption: Resumption | None = Field(default=None, description="How it resumed after an end, if it did.")
    conditions: list[Condition] = Field(
        default_factory=list, max_length=16, description="Conditions, for programs.", json_schema_extra=key_by("type")
    )
