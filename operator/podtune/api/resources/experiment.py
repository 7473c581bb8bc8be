"""The Experiment resource: what to tune, how to search, when to stop, and the pod of a trial."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form, StatusModel, key_by
from podtune.api.conditions import MAX_MESSAGE, Condition
from podtune.api.expressions.expression import ExpressionText
from podtune.api.names import ExperimentState
from podtune.api.object_names import RecordedName
from podtune.api.pods.gpus import count_gpus_among, count_requested_gpus
from podtune.api.pods.pod_template import (
    check_annotations,
    check_labels,
    check_pod_spec,
    check_reusable,
    check_secret_references,
)
from podtune.api.pods.pod_values import check_pod_values, check_references
from podtune.api.pods.template_policy import DEFAULT_POLICY, TemplatePolicy
from podtune.api.resources.checkpoints import Checkpoints
from podtune.api.resources.failures import Failures
from podtune.api.resources.resume import Resume, Resumption
from podtune.api.resources.storage_jobs import StorageStatus
from podtune.api.tuning.compatibility import check_combination
from podtune.api.tuning.configuration import ConfigurationRules
from podtune.api.tuning.domain_values import check_finite
from podtune.api.tuning.objective import MetricName, Objective
from podtune.api.tuning.population import check_population
from podtune.api.tuning.scheduler import FifoSettings, SchedulerSpec
from podtune.api.tuning.search import SearchSpec
from podtune.api.tuning.search_checks import check_search
from podtune.api.tuning.search_space import MAX_CHOICE_TEXT, Parameter
from podtune.api.tuning.stop import Stop

LabelValue = Annotated[
    str,
    Field(max_length=63),
    Form(
        "([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?",
        "can't be the value of a label; use letters, digits, -, _ and ., with a letter or digit at both ends",
    ),
]
AnnotationValue = Annotated[str, Field(max_length=4096)]
MAX_REPLICAS = 64
MAX_NAME = 52
"""Longest name of an Experiment: `<name>-<index>-<attempt>` has to fit into the 63 characters of a label."""


TEMPLATE_POLICY = "template_policy"
"""Key in the validation's context: what the operator's administrator decides about trial templates."""


class StdoutResults(ApiModel):
    """Results read off the trial's standard output."""

    pattern: str = Field(
        min_length=1,
        max_length=512,
        description=(
            "A regular expression (Python's syntax) with named groups; a line in which it is found becomes a "
            "result of the groups' values, such as: epoch=(?P<epoch>\\d+) loss=(?P<loss>\\S+). With the groups name "
            "and value, lines name their metrics, and several make a result: (?P<name>\\w+)=(?P<value>\\S+)"
        ),
    )
    last: MetricName | None = Field(
        default=None,
        description=(
            "Where lines name their metrics: the one that is printed last of each result, which is complete with it. "
            "Without it, a result is complete when one of its metrics comes once more, or the program ends."
        ),
    )

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}; correct it") from error
        if not compiled.groupindex:
            raise ValueError(
                f"{pattern!r} has no named group; write the metric's name into it, as in loss=(?P<loss>\\S+)"
            )
        return pattern

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.last is not None and not {"name", "value"} <= re.compile(self.pattern).groupindex.keys():
            problem = "is for a pattern with the groups name and value, where several lines make a result"
            raise FieldError("last", f"{problem}; remove it, or change the pattern")
        return self


class Results(ApiModel):
    """How results are read, besides the results file and `podtune.trial.report()`, which always work."""

    stdout: StdoutResults | None = Field(default=None, description="Read results off standard output.")


class TemplateMetadata(ApiModel):
    """Labels and annotations of a trial's pods."""

    labels: dict[str, LabelValue] = Field(default_factory=dict, max_length=32, description="Labels of the pods.")
    annotations: dict[str, AnnotationValue] = Field(
        default_factory=dict,
        max_length=32,
        description="Annotations of the pods, of plain words or of domains that the operator's administrator allows.",
    )

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        check_labels(self.labels)
        check_annotations(self.annotations, _policy(info))
        return self


def _policy(info: ValidationInfo) -> TemplatePolicy:
    policy: TemplatePolicy = (info.context or {}).get(TEMPLATE_POLICY, DEFAULT_POLICY)
    return policy


class TrialTemplate(ApiModel):
    """The pod that a trial runs in."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata, description="Metadata of the pods.")
    spec: dict[str, Any] = Field(
        description=(
            "A pod's spec. The container named trial, or else the first one, is the training program. "
            "Parameters can be used as $(PODTUNE_PARAM_<name>) in command, args and env."
        )
    )
    replicas: int = Field(
        default=1,
        ge=1,
        le=MAX_REPLICAS,
        description=(
            "How many such pods a trial has: more than one make a gang, which starts, is placed and ends as a whole. "
            "Each finds its place in it in RANK and WORLD_SIZE, and rank 0 at MASTER_ADDR:MASTER_PORT."
        ),
    )
    placement_timeout: Duration = Field(
        default="5m",
        description=(
            "A gang of whose pods only some have found a node after this, or up to half of it less, gives these places "
            "back and goes to the back of the queue. That counts as no failure."
        ),
    )
    reuse: bool = Field(
        default=False,
        description=(
            "True: a pod whose trial has ended or is paused runs the next one, without the start of a container; the "
            "program loops over podtune.trial.stream(). Such a pod ends when no trial has come for ten seconds."
        ),
    )

    @field_validator("spec")
    @classmethod
    def _check(cls, spec: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        check_pod_spec(spec, _policy(info))
        check_pod_values(spec)
        return spec

    @model_validator(mode="after")
    def _check_reuse(self) -> Self:
        if self.reuse and self.replicas > 1:
            message = "is true, and a gang's pods are not given another trial; leave out reuse or replicas"
            raise FieldError("reuse", message)
        if self.reuse:
            check_reusable(self.spec)
        return self


class ExperimentSpec(ApiModel):
    """What a user asks for."""

    objective: Objective = Field(description="What to optimise.")
    parameters: list[Parameter] = Field(
        min_length=1,
        max_length=64,
        description="The search space, one entry a parameter.",
        json_schema_extra=key_by("name"),
    )
    constraints: list[ExpressionText] = Field(
        default_factory=list,
        max_length=32,
        description=(
            "What every configuration has to hold, such as batch_size * workers <= 1024; one that does not is never "
            "proposed. A constraint on a parameter that a configuration does not have says nothing about it."
        ),
    )
    search: SearchSpec = Field(description="How configurations are proposed.")
    scheduler: SchedulerSpec = Field(
        default_factory=lambda: SchedulerSpec(fifo=FifoSettings()), description="Which trials go on."
    )
    stop: Stop = Field(default_factory=Stop, description="When a trial or the experiment has had enough.")
    suspend: bool = Field(
        default=False,
        description=(
            "True: no trial gets a pod; those that run are paused with a checkpoint, and go on when this is false "
            "again. Without checkpoints.store they start afresh then. Time budgets stand still meanwhile."
        ),
    )
    resume: Resume | None = Field(default=None, description="How it goes on after its end.")
    max_concurrent_trials: int = Field(
        default=3, ge=1, le=10_000, description="How many trials have a pod at the same time."
    )
    max_pending_trials: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description=(
            "How many trials may have a pod that does not run its program yet; without it, only maxConcurrentTrials "
            "limits them. In a full cluster it keeps pods of one experiment from crowding the scheduler's queue."
        ),
    )
    failures: Failures = Field(default_factory=Failures, description="What is done about failed attempts.")
    checkpoints: Checkpoints = Field(default_factory=Checkpoints, description="Where checkpoints go.")
    results: Results = Field(default_factory=Results, description="How results are read.")
    pod_retention: Literal["None", "Failed", "All"] = Field(
        default="Failed",
        description=(
            "Which finished pods stay for a look at them until podRetentionTime after the experiment's end: none, the "
            "last failed one of each trial, or all. The others are deleted ten minutes after their end, or when there "
            "are too many."
        ),
    )
    pod_retention_time: Duration = Field(
        default="1h",
        description=(
            "How long after the experiment's end the pods of podRetention stay; 0s for no longer than it runs. Of "
            "more than 250 trials, those of the latest to end."
        ),
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description=(
            "How long after its end the experiment is deleted, with its trials; never when it is left out. What is to "
            "be exported or pruned in the bucket is done before."
        ),
    )
    trial_template: TrialTemplate = Field(description="The pod that a trial runs in.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [parameter.name for parameter in self.parameters]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise FieldError("parameters", f"{doubled[0]!r} stands there twice; give each parameter a name of its own")
        try:
            check_references(self.trial_template.spec, names)
        except FieldError as error:
            raise FieldError(f"trialTemplate.spec.{error.path}", error.problem) from error
        rules = ConfigurationRules(self.parameters, self.constraints)
        check_search(self.search, rules, self.objective, self.scheduler.name, self.stop)
        if self.search.algorithm == "bruteForce":
            check_finite(self.parameters)
        check_combination(self.objective, self.search, self.scheduler)
        store = self.checkpoints.store
        if store is not None and store.credentials_secret is not None:
            check_secret_references(self.trial_template.spec, store.credentials_secret)
        if self.checkpoints.scratch is not None and self.trial_template.replicas > 1:
            raise FieldError(
                "checkpoints.scratch",
                "is set, and the pods of a gang can't share a volume; leave out scratch or replicas",
            )
        if self.checkpoints.scratch is not None and self.trial_template.reuse:
            raise FieldError(
                "checkpoints.scratch",
                "is set, and a pod that is reused can't change the volume of its trial; leave out scratch or reuse",
            )
        if self.results.stdout is not None and self.trial_template.reuse:
            raise FieldError(
                "results.stdout",
                "is set, and what a pod that is reused prints is not of one trial; leave it out and report results by "
                "podtune.trial, or leave out trialTemplate.reuse",
            )
        if self.checkpoints.export is not None and store is None:
            raise FieldError("checkpoints.store", "is missing, and checkpoints.export copies from it; give a store")
        needs_store = self.scheduler.needs_store
        if needs_store and store is None:
            raise FieldError(
                "checkpoints.store",
                f"is missing, and scheduler {needs_store} resumes trials from checkpoints; give a store, or use asha",
            )
        origins = [place for place, entry in enumerate(self.search.initial) if entry.restore_from is not None]
        if origins and store is None:
            raise FieldError(
                "checkpoints.store",
                f"is missing, and search.initial[{origins[0]}].restoreFrom is read from it; give one",
            )
        if self.scheduler.population is not None:
            check_population(*self.scheduler.population, self.search, self.parameters)
        budget = self.stop.counts_gpus
        of_rungs = any(count_gpus_among(rung.limits) for rung in self.scheduler.resources)
        if budget and not of_rungs and not count_requested_gpus(self.trial_template.spec):
            raise FieldError(
                budget,
                "counts GPUs, and the trial's pod asks for none; give its container a limit such as nvidia.com/gpu, or "
                "use cost with perPodHour, or time",
            )
        return self


class TrialCounts(StatusModel):
    """How many trials are in which state."""

    total: int = Field(default=0, description="All trials made so far.")
    pending: int = Field(default=0, description="Trials that wait for a pod, a node or a retry.")
    running: int = Field(default=0, description="Trials that run.")
    paused: int = Field(default=0, description="Trials that are paused.")
    terminated: int = Field(default=0, description="Trials that came to a good end.")
    error: int = Field(default=0, description="Trials that came to a bad end.")
    stopped_early: int = Field(default=0, description="Of the terminated ones, those that the scheduler stopped.")


class BestTrial(StatusModel):
    """The best result seen so far."""

    trial: RecordedName = Field(max_length=63, description="Name of the trial.")
    value: str = Field(
        max_length=64, description="Value of the objective's metric; with search.repeats, the mean of the repeats'."
    )
    spread: str = Field(default="", max_length=64, description="Standard deviation of the repeats' values.")
    repeats: int = Field(default=0, ge=0, description="How many repeats these are of; 0 where there are none.")
    parameters: dict[str, Annotated[str, Field(max_length=MAX_CHOICE_TEXT)]] = Field(
        default_factory=dict, max_length=64, description="Its configuration."
    )
    checkpoint: str = Field(default="", max_length=1024, description="URI of the trial's best kept checkpoint.")
    exported: str = Field(
        default="", max_length=1024, description="URI that it was copied to, with a model card (checkpoints.export)."
    )


MAX_AVOIDED_NODES = 16
"""So many nodes are avoided at most."""


class AvoidedNode(StatusModel):
    """A node that no trial is started on for a while."""

    name: str = Field(max_length=253, description="Name of the node.")
    trials: int = Field(ge=0, description="How many trials have failed there.")
    until: str = Field(max_length=32, description="When it is forgotten (RFC 3339).")


MAX_FRONT = 32
"""So many trials of a Pareto front are shown at most."""


class ParetoTrial(StatusModel):
    """A trial of the Pareto front: no other one beats it in all objectives."""

    trial: RecordedName = Field(
        max_length=63, description="Name of the trial; the first of its configuration's repeats."
    )
    values: dict[str, Annotated[str, Field(max_length=64)]] = Field(
        default_factory=dict, max_length=8, description="Values of the objective's metrics."
    )


class ProposalRequest(StatusModel):
    """What the searcher was last asked for; it is written before the searcher is asked."""

    first: int = Field(ge=0, description="Number of the first proposal.")
    last: int = Field(ge=0, description="Number of the last one.")
    observed_seq: int = Field(
        ge=0, description="The searcher knew all observations with a lower sequence number than this."
    )


class PodRefusal(StatusModel):
    """The API server refuses the pods of an experiment, which is held until it takes one.

    Its words are in the condition Stalled.
    """

    trial: str = Field(max_length=63, description="Name of the trial whose pod was refused last.")
    generation: int = Field(ge=0, description="The generation of the spec that it was asked about.")
    time: str = Field(max_length=32, description="When the API server was asked last (RFC 3339).")


class ExperimentUsage(StatusModel):
    """What all trials have used, when the status was last written."""

    pod_hours: float = Field(ge=0, description="How long pods were on nodes, added up.")
    gpu_hours: float = Field(ge=0, description="The same for each GPU that they held.")


class ExperimentStatus(StatusModel):
    """What the operator has seen and done. Its size does not depend on the number of trials."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that was last looked at.")
    state: ExperimentState | None = Field(default=None, description="State, for people.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="The state in a sentence.")
    trials: TrialCounts = Field(default_factory=TrialCounts, description="Trials by state.")
    best: BestTrial | None = Field(default=None, description="The best result so far.")
    pareto_front: list[ParetoTrial] = Field(
        default_factory=list,
        max_length=MAX_FRONT,
        description=(
            "With several objectives: the finished trials that no other one beats in all of them, best by the first "
            f"objective first. Of more than {MAX_FRONT}, those that are furthest apart."
        ),
    )
    avoided_nodes: list[AvoidedNode] = Field(
        default_factory=list,
        max_length=MAX_AVOIDED_NODES,
        description="Nodes that have failed too many trials (failures.avoidNodeAfter), the worst first.",
        json_schema_extra=key_by("name"),
    )
    usage: ExperimentUsage | None = Field(default=None, description="What all trials have used, as budgets count it.")
    missing_metrics: int = Field(
        default=0, ge=0, description="Results that were passed over since they lacked a metric (objective.missing)."
    )
    lost_checkpoints: int = Field(
        default=0,
        ge=0,
        description="Attempts that have ended before the newest checkpoint that they had reported was stored.",
    )
    proposal_request: ProposalRequest | None = Field(
        default=None,
        description="The proposals that were last asked for: a restarted operator asks the same again.",
    )
    pod_refusal: PodRefusal | None = Field(
        default=None,
        description=(
            "Which pod the API server refused last, where it refuses pods: meanwhile no pod is made and no trial "
            "proposed, and the API server is asked again every five minutes and after a change of the spec."
        ),
    )
    storage: StorageStatus | None = Field(
        default=None, description="Work in the bucket without a running trial, done by storage pods."
    )
    start_time: str | None = Field(default=None, max_length=32, description="When the first trial was made.")
    suspended_since: str | None = Field(
        default=None, max_length=32, description="Since when it is suspended; empty where it is not."
    )
    suspended_seconds: int = Field(
        default=0,
        ge=0,
        description="How long it has been suspended before that, since its start: time budgets don't count it.",
    )
    completion_time: str | None = Field(default=None, max_length=32, description="When the experiment ended.")
    ended_by: str = Field(
        default="", max_length=80, description="Which limits it has ended by: with others it may go on."
    )
    resumption: Resumption | None = Field(default=None, description="How it went on after an end, if it did.")
    conditions: list[Condition] = Field(
        default_factory=list, max_length=16, description="For programs.", json_schema_extra=key_by("type")
    )
