"""CEL rules for what a schema can't express, so that the API server itself refuses mistakes in the two resources.

Each rule about one object has a counterpart in Python, the validator of the same model, which also reads manifests that
never went through an API server. Rules about a change (`oldSelf`) have none: only the API server sees both versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.api.base import ApiModel
from podtune.api.crd.cel import (
    Rule,
    require_exactly_one,
    require_fixed,
    require_fixed_of_trial,
    require_fixed_optional,
    require_fixed_presence_in_trial,
    require_some_time,
)
from podtune.api.names import QUEUE_NAME
from podtune.api.resources.checkpoints import GOES_WITH, STORE_KINDS, Checkpoints, CheckpointStore, Keep, join_kinds
from podtune.api.resources.evaluation import EvaluationSpec
from podtune.api.resources.experiment import MAX_NAME, ExperimentSpec
from podtune.api.resources.failures import FailureRule, Failures
from podtune.api.resources.results import SCRIPT_SOURCES, describe_second_source
from podtune.api.resources.trial import TrialSpec
from podtune.api.resources.trial_numbers import ADDED_FORM, FIRST_ADDED
from podtune.api.resources.trial_template import MAX_REPLICAS, TrialTemplate
from podtune.api.tuning.compatibility import MULTI_OBJECTIVE, REFUSALS, Refusal
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.population import Mutation
from podtune.api.tuning.scheduler import (
    CLONING,
    RESUMING,
    SCHEDULERS,
    AshaPromotionSettings,
    AshaSettings,
    BohbSettings,
    HyperbandSettings,
    SchedulerSpec,
)
from podtune.api.tuning.search import SearchSpec, TpeSettings
from podtune.api.tuning.search_checks import REPEATABLE
from podtune.api.tuning.search_settings import WITH_SETTINGS
from podtune.api.tuning.search_space import (
    PARAMETER_KINDS,
    FloatDomain,
    IntDomain,
    LogNormalDomain,
    NormalDomain,
    Parameter,
)
from podtune.api.tuning.stop import (
    CostBudget,
    ExperimentCriterion,
    ExperimentRule,
    FailureBudget,
    Stop,
    TrialCriterion,
    TrialRule,
)

_INTERVAL = Rule(
    rule="self.min <= self.max",
    message="min is above max; swap them",
    expression="'min %s is above max %s; swap them'.format([self.min, self.max])",
    field=".min",
)


_TRUNCATION = Rule(
    rule="!has(self.min) || !has(self.max) || self.min < self.max",
    message="min is not below max; change one, or use fixed",
    expression="'min %s is not below max %s; change one, or use fixed'.format([self.min, self.max])",
    field=".min",
)


def _require_step_without_log(condition: str) -> Rule:
    return Rule(
        rule=f"self.scale != 'log' || {condition}",
        message="step can't be combined with scale log; remove one of the two",
        expression="'step %s can\\'t be combined with scale log; remove one of the two'.format([self.step])",
        field=".step",
    )


def _log_above(least: str, words: str) -> Rule:
    return Rule(
        rule=f"self.scale != 'log' || self.min {least}",
        message=f"min must be {words} with scale log; raise it or use scale linear",
        expression=f"'min %s must be {words} with scale log; raise it or use scale linear'.format([self.min])",
        field=".min",
    )


def _require_algorithm(algorithm: str) -> Rule:
    return Rule(
        rule=f"!has(self.{algorithm}) || self.algorithm == '{algorithm}'",
        message=f"{algorithm} requires algorithm {algorithm}; remove one of the two",
        expression=f"'{algorithm} requires algorithm {algorithm}, not ' + self.algorithm + '; remove one of the two'",
        field=f".{algorithm}",
    )


# Texts alone: what lists of them are joined to may be of any length, as far as the API server can tell.
_KINDS_FOUND = "(" + " + ".join(f"(has(self.{kind}) ? ', {kind}' : '')" for kind in STORE_KINDS) + ")"


def _goes_with(name: str) -> Rule:
    """A field of a store that some kinds have, and others don't."""
    kinds = GOES_WITH[name]
    field = CheckpointStore.model_fields[name].alias or name
    allowed = " || ".join(f"has(self.{kind})" for kind in kinds)
    return Rule(
        rule=f"!has(self.{field}) || {allowed}",
        message=f"{field} goes with {join_kinds(kinds)} only; remove it",
        expression=(
            f"'{field} goes with {join_kinds(kinds)}, and not with' + {_KINDS_FOUND}.substring(1) + '; remove it'"
        ),
        field=f".{field}",
    )


_REACHED = (
    "(has(self.store.volume) ? 'volume://' + self.store.volume.claimName"
    " : has(self.store.plugin) ? 'plugin://' + self.store.plugin.name"
    " : has(self.store.gcs) ? 'gs:/' : has(self.store.azure) ? 'az:/' : 's3:/')"
)
"""What the addresses begin with, before a slash, that agents of a store can export to."""
_SOME_RUNG = Rule(
    rule="self.maxTime >= self.reductionFactor",
    message="maxTime is below reductionFactor; raise maxTime or lower reductionFactor",
    expression=(
        "'maxTime %s is below reductionFactor %s, so no trial would ever be stopped early; raise maxTime or lower "
        "reductionFactor'.format([self.maxTime, self.reductionFactor])"
    ),
    field=".maxTime",
)
_RESUMES = " || ".join(f"has(self.{name})" for name in RESUMING)
_NEEDS_STORE = " || ".join(
    [
        *(f"has(self.scheduler.{name})" for name in (*RESUMING, *CLONING)),
        "(has(self.scheduler.median) && (self.scheduler.median.softStop || has(self.scheduler.median.minTime)))",
    ]
)


def _is_one_of(searchers: Iterable[str]) -> str:
    return f"self.search.algorithm in [{', '.join(repr(name) for name in sorted(searchers))}]"


def _has_one_of(schedulers: Iterable[str]) -> str:
    return " || ".join(f"has(self.scheduler.{name})" for name in sorted(schedulers))


def _refuse_pair(refused: Refusal) -> Rule:
    """Searchers that don't go with schedulers; where none is given, it is fifo."""
    if "fifo" in refused.schedulers:
        goes = _has_one_of(SCHEDULERS.keys() - refused.schedulers)
    else:
        goes = f"!({_has_one_of(refused.schedulers)})"
    return Rule(
        rule=f"!({_is_one_of(refused.searchers)}) || {goes}",
        message=f"{refused.why}",
        expression=f"self.search.algorithm + ' can\\'t be combined with this scheduler: {refused.why}'",
        field=".search.algorithm",
    )


_HAS_OTHERS = "(has(self.objective.others) && size(self.objective.others) > 0)"
_COMBINATIONS = (
    *(_refuse_pair(refused) for refused in REFUSALS if refused.searchers and refused.schedulers),
    Rule(
        rule=f"!{_HAS_OTHERS} || {_is_one_of(MULTI_OBJECTIVE)}",
        message=(
            f"objective.others requires one of the algorithms {', '.join(sorted(MULTI_OBJECTIVE))}; use one of them, "
            "or remove others"
        ),
        expression=(
            "self.search.algorithm + ' supports one objective, but objective.others adds more; use one of "
            f"{', '.join(sorted(MULTI_OBJECTIVE))}, or remove others'"
        ),
        field=".search.algorithm",
    ),
    Rule(
        rule=f"!{_HAS_OTHERS} || !({_has_one_of(SCHEDULERS.keys() - {'fifo'})})",
        message="schedulers compare trials by one metric, but objective.others adds more; use fifo, or remove others",
        field=".scheduler",
    ),
)


_IS_KNOWN = "entry, has(entry.results) && size(entry.results) > 0"
# Its entries have places that Trials record. That those of before are found in their order, and the last of them in its
# place, says the same as an index for each, which CEL has only from Kubernetes 1.33 on.
_GROWING_INITIAL = (
    Rule(
        rule=(
            "!has(oldSelf.initial) || size(oldSelf.initial) == 0 || (has(self.initial) && "
            "size(self.initial) >= size(oldSelf.initial) && "
            "self.initial[size(oldSelf.initial) - 1] == oldSelf.initial[size(oldSelf.initial) - 1] && "
            "self.initial.filter(entry, entry in oldSelf.initial) == oldSelf.initial)"
        ),
        message=(
            "entries of initial can't be changed or removed once the experiment exists, and none is given twice; put "
            "them back as they were, and append new ones at the end"
        ),
        field=".initial",
    ),
    Rule(
        rule=(
            f"(has(self.initial) ? self.initial.filter({_IS_KNOWN}).size() : 0) == "
            f"(has(oldSelf.initial) ? oldSelf.initial.filter({_IS_KNOWN}).size() : 0)"
        ),
        message=(
            "an entry with results can't be appended to initial, because the searcher hears of known results before it "
            "begins; remove its results to run it, or make a new Experiment"
        ),
        field=".initial",
    ),
)
_EVALUATION = (
    Rule(
        rule="has(self.evaluation) == has(oldSelf.evaluation)",
        message="evaluation can't be added or removed once the experiment exists; make a new Experiment",
        field=".evaluation",
    ),
    Rule(
        rule="!has(self.evaluation) || (has(self.checkpoints) && has(self.checkpoints.store))",
        message="is missing, but the evaluation reads the checkpoint of the training from it; set a store",
        field=".checkpoints.store",
    ),
    Rule(
        rule="!has(self.evaluation) || !has(self.trialTemplate.reuse) || !self.trialTemplate.reuse",
        message="is true, but evaluation needs pods of one trial each; remove reuse or evaluation",
        field=".trialTemplate.reuse",
    ),
    Rule(
        rule=(
            "!has(self.evaluation) || !has(self.evaluation.trainingObjective) || "
            "(self.evaluation.trainingObjective.metric != self.objective.metric && (!has(self.objective.others) || "
            "self.objective.others.all(o, o.metric != self.evaluation.trainingObjective.metric)))"
        ),
        message="is the objective, which only the evaluation reports; name another metric, which training reports",
        field=".evaluation.trainingObjective.metric",
    ),
    Rule(
        rule="!has(self.evaluation) || !has(self.scheduler) || !has(self.scheduler.bohb)",
        message=(
            "bohb teaches the search by results during training, but only the evaluation reports the objective; use "
            "hyperband, or remove evaluation"
        ),
        field=".scheduler",
    ),
    Rule(
        rule=(
            "!has(self.evaluation) || has(self.evaluation.trainingObjective) || "
            f"!({_has_one_of(SCHEDULERS.keys() - {'fifo'})})"
        ),
        message=(
            "compares trials during training, but only the evaluation reports the objective, after it; set "
            "evaluation.trainingObjective to a metric that training reports, or use fifo"
        ),
        field=".scheduler",
    ),
)


_OPTIONAL_OF_TRIAL = ("index", "seed", "displayName", "restoreFrom", "proposal", "former")
_OF_OPERATOR = (
    "spec.index is for the operator to set, and the name belongs to it; leave it out and name the Trial "
    f"<experiment>-<number>, with a number from {FIRST_ADDED} on"
)

RULES: Mapping[type[ApiModel], tuple[Rule, ...]] = {
    FloatDomain: (_INTERVAL, _log_above("> 0.0", "above 0"), _require_step_without_log("!has(self.step)")),
    IntDomain: (_INTERVAL, _log_above(">= 1", "at least 1"), _require_step_without_log("self.step == 1")),
    NormalDomain: (_TRUNCATION,),
    LogNormalDomain: (_TRUNCATION,),
    Parameter: (
        Rule(
            rule=f"[{', '.join(f'has(self.{kind})' for kind in PARAMETER_KINDS)}].exists_one(given, given)",
            message=f"a parameter needs exactly one of {', '.join(PARAMETER_KINDS)}",
            expression=(
                f"'parameter ' + self.name + ' needs exactly one of {', '.join(PARAMETER_KINDS)}; found '"
                + "".join(f" + (has(self.{kind}) ? '{kind} ' : '')" for kind in PARAMETER_KINDS)
                + f" + (!{' && !'.join(f'has(self.{kind})' for kind in PARAMETER_KINDS)} ? 'none' : '')"
            ),
        ),
    ),
    AshaSettings: (
        Rule(
            rule="self.maxTime >= self.gracePeriod",
            message="maxTime is below gracePeriod; raise maxTime or lower gracePeriod",
            expression=(
                "'maxTime %s is below gracePeriod %s; raise maxTime or lower gracePeriod'"
                ".format([self.maxTime, self.gracePeriod])"
            ),
            field=".maxTime",
        ),
    ),
    AshaPromotionSettings: (
        Rule(
            rule="self.maxTime > self.gracePeriod",
            message="maxTime is not above gracePeriod; raise maxTime or lower gracePeriod",
            expression=(
                "'maxTime %s is not above gracePeriod %s, so there is no rung; raise maxTime or lower gracePeriod'"
                ".format([self.maxTime, self.gracePeriod])"
            ),
            field=".maxTime",
        ),
    ),
    HyperbandSettings: (_SOME_RUNG,),
    BohbSettings: (_SOME_RUNG,),
    Mutation: (
        Rule(
            rule="[has(self.float), has(self.int), has(self.choice)].filter(given, given).size() <= 1",
            message="a mutation takes one of float, int, choice, or none of them; remove the others",
            expression=(
                "'mutation of ' + self.name + ' takes one of float, int, choice, or none of them; remove the others'"
            ),
        ),
    ),
    SchedulerSpec: (
        Rule(
            rule=f"[{', '.join(f'has(self.{name})' for name in SCHEDULERS)}].filter(given, given).size() <= 1",
            message=f"scheduler needs exactly one of {', '.join(SCHEDULERS)}; keep one of them",
        ),
        Rule(
            rule=f"!has(self.resources) || size(self.resources) == 0 || {_RESUMES}",
            message=(
                f"resources requires one of the schedulers {', '.join(RESUMING)}, which resume trials at rungs; use "
                "one, or remove it"
            ),
            field=".resources",
        ),
        Rule(
            rule="!has(self.resources) || self.resources.map(r, r.atRung).isSorted()",
            message="resources are not in the order of atRung; put the lowest rung first",
            field=".resources",
        ),
    ),
    Objective: (
        Rule(
            rule="!has(self.others) || self.others.all(o, o.metric != self.metric)",
            message="a metric of others is the objective's own already; name another one, or remove it",
            field=".others",
        ),
        Rule(
            rule="!has(self.others) || self.others.all(o, self.others.exists_one(p, p.metric == o.metric))",
            message="a metric of others is listed twice; remove one of the two",
            field=".others",
        ),
    ),
    TpeSettings: (
        Rule(
            rule="!has(self.group) || !self.group || !has(self.multivariate) || self.multivariate",
            message="group true needs multivariate true; change one of the two",
            field=".group",
        ),
    ),
    SearchSpec: (
        *map(_require_algorithm, WITH_SETTINGS),
        Rule(
            rule="self.algorithm != 'plugin' || has(self.plugin)",
            message="plugin is missing, but algorithm plugin needs its name; add plugin: {name: …}",
            field=".plugin",
        ),
        Rule(
            rule="type(self.maxTrials) != int || self.maxTrials % self.repeats == 0",
            message="maxTrials must be a multiple of repeats; change one of the two",
            expression=(
                "'%s trials can\\'t be divided into configurations of %s repeats each; make maxTrials a multiple of "
                "repeats'.format([self.maxTrials, self.repeats])"
            ),
            field=".maxTrials",
        ),
        *map(require_fixed, ("algorithm", "seed", "repeats")),
        *_GROWING_INITIAL,
        *map(require_fixed_optional, ("warmStart", *WITH_SETTINGS)),
    ),
    Stop: (require_some_time("totalTime"),),
    TrialCriterion: (require_exactly_one(TrialCriterion), require_some_time("time")),
    TrialRule: (require_exactly_one(TrialRule), require_some_time("time")),
    ExperimentCriterion: (require_exactly_one(ExperimentCriterion), require_some_time("time")),
    ExperimentRule: (require_exactly_one(ExperimentRule), require_some_time("time")),
    Failures: tuple(map(require_some_time, ("avoidNodeFor", "pendingDeadline", "runDeadline", "silenceDeadline"))),
    FailureRule: (
        Rule(
            rule="has(self.logRegex) || has(self.exitCodes) || has(self.reason)",
            message="a rule has no condition; set logRegex, exitCodes or reason",
        ),
    ),
    FailureBudget: (
        Rule(
            rule="has(self.count) != has(self.share)",
            message="failures needs exactly one of count, share; give one",
        ),
        Rule(
            rule="!has(self.after) || has(self.share)",
            message="after applies to share, not to count; remove it",
            field=".after",
        ),
    ),
    CostBudget: (
        Rule(
            rule="has(self.perGpuHour) || has(self.perPodHour)",
            message="cost needs perGpuHour, perPodHour or both; without a price nothing is ever spent",
        ),
    ),
    CheckpointStore: (
        Rule(
            rule=f"[{', '.join(f'has(self.{kind})' for kind in STORE_KINDS)}].exists_one(given, given)",
            message=f"needs exactly one of {', '.join(STORE_KINDS)}; give one",
            expression=(
                f"'needs exactly one of {', '.join(STORE_KINDS)}; found' + ({_KINDS_FOUND} == '' ? ' none' : "
                f"{_KINDS_FOUND}.substring(1)) + '; give one'"
            ),
        ),
        *map(_goes_with, GOES_WITH),
        *map(require_fixed_optional, ("bucket", "gcs", "azure", "volume", "prefix", "endpoint")),
        require_fixed(
            "plugin",
            "has(self.plugin) == has(oldSelf.plugin) && (!has(self.plugin) || self.plugin.name == oldSelf.plugin.name)",
        ),
    ),
    Keep: (
        Rule(
            rule="!has(self.ofExperiment) || has(self.stopped)",
            message="is set, and stopped trials keep as many checkpoints as others; set stopped, such as 0",
            field=".ofExperiment",
        ),
    ),
    Checkpoints: (
        Rule(
            rule="!has(self.scratch) || has(self.store)",
            message="is set, but there are no checkpoints without a store; set checkpoints.store",
            field=".scratch",
        ),
        Rule(
            rule="!has(self.artifacts) || has(self.store)",
            message="is set, but there is no store for them; set checkpoints.store, too",
            field=".artifacts",
        ),
        Rule(
            rule="!has(self.export) || has(self.store)",
            message="export copies from checkpoints.store, which is missing; set a store",
            field=".export",
        ),
        Rule(
            rule=(
                "!has(self.store) || !has(self.export) || !has(self.export.to) || self.export.to.startsWith("
                f"{_REACHED} + '/')"
            ),
            message="is where this store's agents can't get to; begin it as the store's own address, or leave it out",
            expression=(
                "'\\'' + self.export.to + '\\' is where this store\\'s agents can\\'t get to; begin it with ' + "
                f"{_REACHED} + '/, or leave it out'"
            ),
            field=".export.to",
        ),
        Rule(
            rule="!has(oldSelf.store) || has(self.store)",
            message="store can't be removed once the experiment exists, because its checkpoints are there; put it back",
        ),
    ),
    EvaluationSpec: (
        Rule(
            rule="self.checkpoint != 'best' || has(self.trainingObjective)",
            message=(
                "is best, but nothing says what that goes by; set evaluation.trainingObjective to a metric that "
                "training reports, or use latest"
            ),
            field=".checkpoint",
        ),
        require_fixed("checkpoint"),
        require_fixed_optional("trainingObjective"),
    ),
    TrialTemplate: (
        require_fixed("replicas"),
        require_fixed("reuse"),
        # That limits are not set besides roles is checked by the operator: CEL does not see fields without a type.
        Rule(
            rule="has(self.spec) != has(self.roles)",
            message="needs exactly one of spec, roles; write the spec of the pod, or roles with a template each",
            expression=(
                "'needs exactly one of spec, roles; found ' + (has(self.spec) ? 'both' : 'none') + "
                "'; write the spec of the pod, or roles with a template each'"
            ),
        ),
        Rule(
            rule="!has(self.roles) || !has(self.replicas) || self.replicas == 1",
            message="is set besides roles, which have replicas of their own; remove it",
            field=".replicas",
        ),
        Rule(
            rule=f"!has(self.roles) || self.roles.map(role, role.replicas).sum() <= {MAX_REPLICAS}",
            message=f"have more than {MAX_REPLICAS} pods in all; lower their replicas",
            field=".roles",
        ),
        Rule(
            rule=(
                "!has(self.roles) || self.roles.all(role, !has(role.template.metadata) || "
                f"!has(role.template.metadata.labels) || !('{QUEUE_NAME}' in role.template.metadata.labels))"
            ),
            message=f"{QUEUE_NAME} is for one role, but a gang is admitted whole; set it in trialTemplate.metadata",
            field=".roles",
        ),
        # Ranks follow from the order, which two lists with a key may differ in and be equal.
        Rule(
            rule=(
                "has(self.roles) == has(oldSelf.roles) && (!has(self.roles) || "
                "(self.roles.map(role, role.name) == oldSelf.roles.map(role, role.name) && "
                "self.roles.map(role, role.replicas) == oldSelf.roles.map(role, role.replicas)))"
            ),
            message=(
                "names, replicas and order of roles can't be changed once the experiment exists, only their templates; "
                "make a new Experiment"
            ),
            field=".roles",
        ),
    ),
    ExperimentSpec: (
        require_fixed("objective"),
        # Two lists with a key are equal in any order, but the order is part of what a seed stands for.
        require_fixed(
            "parameters",
            "self.parameters == oldSelf.parameters && "
            "self.parameters.map(p, p.name) == oldSelf.parameters.map(p, p.name)",
        ),
        require_fixed_optional("constraints"),
        *_COMBINATIONS,
        Rule(
            rule=(
                "!has(self.checkpoints) || !has(self.checkpoints.scratch) || "
                "((!has(self.trialTemplate.replicas) || self.trialTemplate.replicas == 1) && "
                "!has(self.trialTemplate.roles))"
            ),
            message="is set, but the pods of a gang can't share a volume; remove scratch, or replicas and roles",
            field=".checkpoints.scratch",
        ),
        Rule(
            rule=(
                "!has(self.checkpoints) || !has(self.checkpoints.scratch) || !has(self.trialTemplate.reuse) || "
                "!self.trialTemplate.reuse"
            ),
            message="is set, but a reused pod can't switch to another trial's volume; remove scratch or reuse",
            field=".checkpoints.scratch",
        ),
        Rule(
            rule=(
                "!has(self.results) || !has(self.results.stdout) || !has(self.trialTemplate.reuse) || "
                "!self.trialTemplate.reuse"
            ),
            message=(
                "is set, but a reused pod prints the output of several trials; remove stdout and report results with "
                "podtune.trial, or remove trialTemplate.reuse"
            ),
            field=".results.stdout",
        ),
        *(
            Rule(
                rule=(
                    f"!has(self.results) || !has(self.results.{name}) || !has(self.trialTemplate.reuse) || "
                    "!self.trialTemplate.reuse"
                ),
                message=(
                    f"is set, but a script that reports by it trains one trial only; remove {name} and report results "
                    "with podtune.trial, or remove trialTemplate.reuse"
                ),
                field=f".results.{name}",
            )
            for name in SCRIPT_SOURCES
        ),
        *(
            Rule(
                rule=(
                    f"has(self.evaluation) || !has(self.results) || !has(self.results.{name}) || "
                    f"!({' || '.join(f'has(self.results.{before})' for before in SCRIPT_SOURCES[:position])})"
                ),
                message=describe_second_source(name),
                field=f".results.{name}",
            )
            for position, name in enumerate(SCRIPT_SOURCES)
            if position > 0
        ),
        Rule(
            rule=(
                "!has(self.trackers) || !has(self.trackers.wandb) || !has(self.trialTemplate.reuse) || "
                "!self.trialTemplate.reuse"
            ),
            message=(
                "is set, but the variables of a reused pod are those of its first trial; remove wandb and begin a run "
                "for each trial in the program, or remove trialTemplate.reuse"
            ),
            field=".trackers.wandb",
        ),
        Rule(
            rule=(
                "!has(self.trackers) || !has(self.trackers.tensorBoard) || "
                "(has(self.checkpoints) && has(self.checkpoints.store))"
            ),
            message=(
                "is set, but there is no store to put event files in; set checkpoints.store, or remove tensorBoard"
            ),
            field=".trackers.tensorBoard",
        ),
        Rule(
            rule=(
                "!has(self.logs) || !has(self.logs.keep) || !self.logs.keep.matches('[1-9]') || "
                "(has(self.checkpoints) && has(self.checkpoints.store))"
            ),
            message="is more than 0, but there is no store to keep logs in; set checkpoints.store, or remove logs",
            field=".logs.keep",
        ),
        Rule(
            rule="!has(self.trialTemplate.reuse) || !self.trialTemplate.reuse || "
            "((!has(self.trialTemplate.replicas) || self.trialTemplate.replicas == 1) && "
            "!has(self.trialTemplate.roles))",
            message="is true, but a gang's pods can't be reused; remove reuse, or replicas and roles",
            field=".trialTemplate.reuse",
        ),
        Rule(
            rule=(
                "!has(self.search.repeats) || self.search.repeats == 1 || "
                f"!({_has_one_of(SCHEDULERS.keys() - REPEATABLE)})"
            ),
            message=(
                f"search.repeats requires one of the schedulers {', '.join(sorted(REPEATABLE))}; use one of them, or 1"
            ),
            field=".search.repeats",
        ),
        Rule(
            rule=(
                "type(self.search.maxTrials) == int || (has(self.stop) && (has(self.stop.totalTime) || "
                "(has(self.stop.experiment) && size(self.stop.experiment) > 0)))"
            ),
            message=(
                "maxTrials is unlimited, but nothing in stop ends the experiment; set stop.totalTime or another "
                "budget, or set a number"
            ),
            field=".search.maxTrials",
        ),
        require_fixed_optional("scheduler"),
        *_EVALUATION,
        Rule(
            rule=f"!has(self.scheduler) || !({_NEEDS_STORE}) || (has(self.checkpoints) && has(self.checkpoints.store))",
            message=(
                f"{', '.join((*RESUMING, *CLONING))}, and median with softStop or minTime, resume trials from "
                "checkpoints; set checkpoints.store, or use another scheduler such as asha"
            ),
            field=".checkpoints",
        ),
    ),
    TrialSpec: (
        *map(require_fixed_of_trial, ("experiment", "parameters", *_OPTIONAL_OF_TRIAL)),
        require_fixed_presence_in_trial(_OPTIONAL_OF_TRIAL),
        Rule(
            rule="oldSelf != 'Stopped' || self == 'Stopped'",
            message="a stopped trial can't be started again; make a new Experiment",
            field=".desiredState",
            is_of_field=True,
        ),
        Rule(rule=f"self < {FIRST_ADDED}", message=_OF_OPERATOR, field=".index", is_of_field=True),
        Rule(
            rule=(
                "has(self.index) || "
                "!(has(self.seed) || has(self.displayName) || has(self.proposal) || has(self.former))"
            ),
            message=(
                "seed, displayName, proposal and former are for the operator to set; give experiment, parameters and, "
                "if you like, restoreFrom"
            ),
        ),
        Rule(
            rule=(
                "has(self.index) || !has(self.restoreFrom) || !has(self.restoreFrom.experiment) || "
                "self.restoreFrom.experiment in ['', self.experiment]"
            ),
            message="restoreFrom names a trial of another experiment; name one of the Trial's own",
            is_of_creation=True,
        ),
    ),
}
"""The rules of each model, checked wherever the model stands in a resource."""

TRIAL_RULES: tuple[Rule, ...] = (
    Rule(
        rule=(
            "has(self.spec.index) || (self.metadata.name.startsWith(self.spec.experiment + '-') && "
            f"self.metadata.name.substring(size(self.spec.experiment) + 1).matches('^{ADDED_FORM}$'))"
        ),
        message=f"a Trial that you add is named <experiment>-<number>, with a number from {FIRST_ADDED} on; rename it",
        is_of_creation=True,
    ),
    Rule(
        rule=(
            "!has(self.spec.index) || (self.metadata.name.startsWith(self.spec.experiment + '-') && "
            "self.metadata.name.substring(size(self.spec.experiment) + 1).matches('^(0|[1-9][0-9]{0,4})$') && "
            "int(self.metadata.name.substring(size(self.spec.experiment) + 1)) == self.spec.index)"
        ),
        message=_OF_OPERATOR,
        is_of_creation=True,
    ),
)
"""Rules about a Trial's name, which goes with fields that stay as they were made."""


EXPERIMENT_RULES: tuple[Rule, ...] = (
    Rule(
        rule="!has(self.spec.search.warmStart) || self.spec.search.warmStart.experiment != self.metadata.name",
        message="search.warmStart names this experiment itself, which has no trials yet; name an earlier one",
    ),
    Rule(
        rule=f"size(self.metadata.name) <= {MAX_NAME}",
        message=f"the name of an Experiment may have at most {MAX_NAME} characters; shorten metadata.name",
        expression=(
            f"'metadata.name %s has %s characters; shorten it to {MAX_NAME}'"
            ".format([self.metadata.name, string(size(self.metadata.name))])"
        ),
    ),
    Rule(
        rule="!self.metadata.name.contains('.')",
        message="the name of an Experiment may not contain a dot, because pods are named after it; write - instead",
        expression=(
            "'metadata.name ' + self.metadata.name + ' may not contain a dot, because pods are named after it; write - "
            "instead'"
        ),
    ),
)
"""Rules about an Experiment's metadata, which the models don't hold."""
