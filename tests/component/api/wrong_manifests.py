"""Manifests that people write wrong, as changes of the README's: the same verdict everywhere is tested with them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

GOOD = Path(__file__).parent / "good.yaml"
_REMOVED = object()


@dataclass(frozen=True, slots=True)
class WrongManifest:
    """One mistake.

    Attributes:
        name: What people do wrong.
        change: The value by the path of its field, with dots.
        field: What the answer names.
        words: A piece of what it says.
    """

    name: str
    change: dict[str, Any]
    field: str
    words: str = ""

    def build(self) -> dict[str, Any]:
        """The manifest."""
        manifest: dict[str, Any] = yaml.safe_load(GOOD.read_text())
        for path, value in self.change.items():
            *above, last = path.split(".")
            place: Any = manifest
            for part in above:
                place = place[int(part) if isinstance(place, list) else part]
            key: Any = int(last) if isinstance(place, list) else last
            if value is _REMOVED:
                del place[key]
            else:
                place[key] = copy.deepcopy(value)
        return manifest


_POD = "spec.trialTemplate.spec"
_TRIAL = f"{_POD}.containers.0"
_STORE = "spec.checkpoints.store"
_LR = {"name": "learning_rate"}


def _case(name: str, path: str, value: Any, field: str = "", words: str = "", **others: Any) -> WrongManifest:
    where = field or path.replace(".0", "[0]")
    return WrongManifest(
        name, {path: value, **{key.replace("__", "."): more for key, more in others.items()}}, where, words
    )


WRONG = (
    # The document and its metadata.
    _case("another group", "apiVersion", "kubeflow.org/v1beta1", words="write podtune.dev/v1alpha1"),
    _case("another version", "apiVersion", "podtune.dev/v1", words="write podtune.dev/v1alpha1"),
    _case("a kind in small letters", "kind", "experiment", words="did you mean Experiment?"),
    _case("a field beside spec", "specs", {}, words="did you mean spec?"),
    _case("no name", "metadata", {"labels": {"team": "a"}}, "metadata.name", "is missing"),
    _case("a name too long", "metadata.name", "a" * 60, words="shorten it"),
    _case("a name with a dot", "metadata.name", "digits.v2", words="contains a dot"),
    _case("a name in capitals", "metadata.name", "Digits", words="not a valid Kubernetes name"),
    _case("a prefix too long", "metadata", {"generateName": "a" * 60 + "-"}, "metadata.generateName", "shorten it"),
    _case("a label of a number", "metadata.labels", {"version": 5}, "metadata.labels.version", "put it in quotes"),
    _case("a label with a space", "metadata.labels", {"team": "a b"}, "metadata.labels.team", "is no label"),
    _case("a misspelt field of the metadata", "metadata.label", {}, words="did you mean labels?"),
    _case("no spec", "spec", None, "spec", "is not a map"),
    # The objective and the space.
    _case("no objective", "spec.objective", _REMOVED, words="is missing"),
    _case("no metric", "spec.objective", {"mode": "max"}, "spec.objective.metric", "is missing"),
    _case("another mode", "spec.objective.mode", "maximize", words="use 'max'"),
    _case("no parameters", "spec.parameters", [], words="is too short"),
    _case("a parameter without a domain", "spec.parameters.0", _LR, words="needs exactly one of"),
    _case(
        "two domains",
        "spec.parameters.0",
        {**_LR, "float": {"min": 0, "max": 1}, "int": {"min": 0, "max": 1}},
        words="needs exactly one of",
    ),
    _case(
        "min above max", "spec.parameters.0.float", {"min": 2, "max": 1}, "spec.parameters[0].float.min", "swap them"
    ),
    _case(
        "the logarithm of 0",
        "spec.parameters.0.float",
        {"min": 0, "max": 1, "scale": "log"},
        "spec.parameters[0].float.min",
        "must be above 0",
    ),
    _case("a number in quotes", "spec.parameters.0.float.min", "0.1", words="without quotes"),
    _case("a step of 0", "spec.parameters.1.int.step", 0, "spec.parameters[1].int.step", "too small"),
    _case(
        "a choice of nothing", "spec.parameters.2.choice.values", [], "spec.parameters[2].choice.values", "too short"
    ),
    _case("a choice twice", "spec.parameters.2.choice.values", ["a", "a"], "spec.parameters[2].choice.values", "twice"),
    _case(
        "a choice twice as a number", "spec.parameters.2.choice.values", [1, 1.0], "spec.parameters[2].choice.values"
    ),
    _case("a parameter twice", "spec.parameters.1.name", "learning_rate", "spec.parameters", "learning_rate"),
    _case("a name with a dash", "spec.parameters.0.name", "learning-rate", words="learning-rate"),
    _case(
        "a function",
        "spec.parameters.0",
        {**_LR, "function": "lambda: 1"},
        "spec.parameters[0].function",
        "a manifest holds no functions",
    ),
    _case(
        "an unknown parent",
        "spec.parameters.0.when",
        {"optimizer": ["sgd"]},
        "spec.parameters[0].when.optimizer",
        "is not another parameter",
    ),
    _case(
        "a circle",
        "spec.parameters.0",
        {**_LR, "expression": "hidden_units", "when": {"activation": ["relu"]}},
        "spec.parameters",
        "circular",
        spec__parameters__1={"name": "hidden_units", "expression": "learning_rate"},
    ),
    _case("an unknown name in a constraint", "spec.constraints", ["lr < 1"], "spec.constraints[0]", "lr"),
    _case("a constraint that assigns", "spec.constraints", ["learning_rate = 1"], "spec.constraints[0]"),
    # The search.
    _case("no search", "spec.search", _REMOVED, words="is missing"),
    _case("an unknown algorithm", "spec.search.algorithm", "bayes", words="use 'random'"),
    _case("settings of another algorithm", "spec.search.qmc", {"sequence": "sobol"}, words="requires algorithm qmc"),
    _case("no trials", "spec.search.maxTrials", 0, words="is too small"),
    _case("fewer than no trials", "spec.search.maxTrials", -1, words="is too small"),
    _case("a trillion trials", "spec.search.maxTrials", 10**12, words="is too large"),
    _case("trials in words", "spec.search.maxTrials", "many", words="is not a whole number"),
    _case("no end", "spec.search.maxTrials", "unlimited", words="nothing in stop ends"),
    _case("repeats that don't divide", "spec.search.repeats", 5, "spec.search", "repeats"),
    _case("a seed below 0", "spec.search.seed", -1, words="is too small"),
    _case(
        "a beginning outside the space",
        "spec.search.initial",
        [{"parameters": {"learning_rate": 5}}],
        "spec.search.initial",
    ),
    _case("an unknown beginning", "spec.search.initial", [{"parameters": {"lr": 0.1}}], "spec.search.initial"),
    _case(
        "a start from itself",
        "spec.search.warmStart",
        {"experiment": "digits"},
        "spec.search.warmStart.experiment",
        "itself",
    ),
    # Scheduler and end.
    _case("two schedulers", "spec.scheduler.fifo", {}, "spec.scheduler", "exactly one"),
    _case("an unknown scheduler", "spec.scheduler", {"sha": {}}, "spec.scheduler.sha", "does not exist"),
    _case(
        "grace above maxTime",
        "spec.scheduler.asha.gracePeriod",
        81,
        "spec.scheduler.asha.maxTime",
        "is below gracePeriod",
    ),
    _case("maxTime in quotes", "spec.scheduler.asha.maxTime", "27", words="without quotes"),
    _case(
        "pauses without a store",
        "spec.scheduler",
        {"hyperband": {"timeAttribute": "epoch", "maxTime": 27}},
        "spec.checkpoints",
        "set a store",
        spec__checkpoints=_REMOVED,
    ),
    _case("a rule of nothing", "spec.stop.experiment", [{}], "spec.stop.experiment[0]", "needs exactly one of"),
    _case(
        "a broken expression", "spec.stop.trial", [{"expression": "loss >"}], "spec.stop.trial[0].expression", "loss >"
    ),
    _case("a duration in words", "spec.stop.totalTime", "soon", words="write it like 90s"),
    _case("no time at all", "spec.stop.totalTime", "0s", words="at least 1s"),
    _case("a threshold in words", "spec.stop.metrics.epoch", "all", words="is not a number"),
    # Failures and checkpoints.
    _case("concurrency of 0", "spec.maxConcurrentTrials", 0, words="is too small"),
    _case("a misspelt field", "spec.maxConcurentTrials", 4, words="did you mean maxConcurrentTrials?"),
    _case("a broken pattern", "spec.failures.rules", [{"logRegex": "(", "action": "Retry"}], "spec.failures.rules[0]"),
    _case(
        "a rule without a condition",
        "spec.failures.rules",
        [{"action": "Retry"}],
        "spec.failures.rules[0]",
        "no condition",
    ),
    _case("a store of two kinds", f"{_STORE}.gcs", {"bucket": "models"}, _STORE, "needs exactly one of"),
    _case("a bucket in capitals", f"{_STORE}.bucket", "Podtune", words="Podtune"),
    _case("an endpoint without a scheme", f"{_STORE}.endpoint", "minio:9000", words="minio:9000"),
    _case("a prefix that climbs", f"{_STORE}.prefix", "../others", words="../others"),
    _case("an unknown deletion", "spec.checkpoints.deletionPolicy", "Keep", words="Keep"),
    _case(
        "logs without a store",
        "spec.logs",
        {"keep": "8Mi"},
        "spec.logs.keep",
        "set checkpoints.store",
        spec__checkpoints=_REMOVED,
    ),
    # The pod.
    _case("no containers", f"{_POD}.containers", [], words="missing or empty"),
    _case(
        "a misspelt field of a container",
        f"{_TRIAL}.imagePullPolcy",
        "Always",
        f"{_POD}.containers[0].imagePullPolcy",
        "did you mean imagePullPolicy?",
    ),
    _case(
        "an unknown pull policy",
        f"{_TRIAL}.imagePullPolicy",
        "IfNeeded",
        f"{_POD}.containers[0].imagePullPolicy",
        "Always",
    ),
    _case(
        "a directory of the node",
        f"{_POD}.volumes",
        [{"name": "a", "hostPath": {"path": "/"}}],
        f"{_POD}.volumes[0].hostPath",
        "not allowed",
    ),
    _case(
        "privileged",
        f"{_TRIAL}.securityContext",
        {"privileged": True},
        f"{_POD}.containers[0].securityContext.privileged",
        "not allowed",
    ),
    _case("the node's network", f"{_POD}.hostNetwork", True, words="not allowed"),
    _case("a node by name", f"{_POD}.nodeName", "n1", words="not allowed"),
    _case("another restart policy", f"{_POD}.restartPolicy", "Always", words="Always"),
    _case(
        "the store's Secret",
        f"{_TRIAL}.envFrom",
        [{"secretRef": {"name": "podtune-s3"}}],
        f"{_POD}.containers[0].envFrom[0].secretRef.name",
        "may not see",
    ),
    _case(
        "a reserved variable",
        f"{_TRIAL}.env",
        [{"name": "PODTUNE_X", "value": "1"}],
        f"{_POD}.containers[0].env[0].name",
        "PODTUNE_",
    ),
    _case(
        "a variable of a number",
        f"{_TRIAL}.env",
        [{"name": "X", "value": 1}],
        f"{_POD}.containers[0].env[0].value",
        "1",
    ),
    _case(
        "a command of one text",
        f"{_TRIAL}.command",
        "python digits.py",
        f"{_POD}.containers[0].command",
        "is not a list",
    ),
    _case(
        "an unknown parameter in the command",
        f"{_TRIAL}.command",
        ["python", "--lr=$(PODTUNE_PARAM_lr)"],
        f"{_POD}.containers[0].command[1]",
        "PODTUNE_PARAM_lr",
    ),
    _case(
        "a mount of no volume",
        f"{_TRIAL}.volumeMounts",
        [{"name": "data", "mountPath": "/data"}],
        f"{_POD}.containers[0].volumeMounts[0].name",
        "data",
    ),
    _case(
        "memory in words",
        f"{_TRIAL}.resources",
        {"limits": {"memory": "8GB"}},
        f"{_POD}.containers[0].resources.limits",
        "8GB",
    ),
    _case(
        "half a GPU",
        f"{_TRIAL}.resources",
        {"limits": {"nvidia.com/gpu": 0.5}},
        f"{_POD}.containers[0].resources.limits",
        "0.5",
    ),
    _case("replicas below 1", "spec.trialTemplate.replicas", 0, words="is too small"),
)
"""All of them are refused: by the API server, or else by the operator."""

FINE = (
    WrongManifest("a name that the API server makes", {"metadata": {"generateName": "digits-"}}, ""),
    WrongManifest("a space without a point", {"spec.constraints": ["learning_rate > 2"]}, ""),
    WrongManifest(
        "labels and annotations",
        {"metadata.labels": {"example.com/team": "a", "b": ""}, "metadata.annotations": {"c": "d e"}},
        "",
    ),
    WrongManifest("a whole number with a point", {"spec.maxConcurrentTrials": 4.0}, ""),
    WrongManifest(
        "a stopper of the experiment",
        {"spec.stop.experiment": [{"plugin": {"name": "a"}}, {"all": [{"time": "1h"}, {"plugin": {"name": "b"}}]}]},
        "",
    ),
)
"""None of them is."""
