"""What is given on the command line, to several commands."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from podtune.api.names import EXPERIMENT_KIND, GROUP, TRIAL_KIND
from podtune.cli.completion import complete_experiments, complete_targets, complete_trials


class Output(StrEnum):
    """How commands answer programs."""

    JSON = "json"
    YAML = "yaml"


class Format(StrEnum):
    """How `simulate` and `plan` answer."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class NamedOutput(StrEnum):
    """How commands answer that are about one object."""

    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class WideOutput(StrEnum):
    """How commands answer that print a table of what kubectl has no name for."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"


class TableOutput(StrEnum):
    """How commands answer that print a table."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    NAME = "name"


ForPrograms = Annotated[Output | None, typer.Option("--output", "-o", help="For programs.")]
NamedFormat = Annotated[
    NamedOutput | None, typer.Option("--output", "-o", help="For programs; name is kind and name alone, for kubectl.")
]
WideFormat = Annotated[WideOutput | None, typer.Option("--output", "-o", help="For programs; wide is all columns.")]
TableFormat = Annotated[
    TableOutput | None,
    typer.Option("--output", "-o", help="For programs; wide is all columns, name kind and name alone, for kubectl."),
]


def read_experiment_name(written: str) -> str:
    """A name that may have its kind before it, as `-o name` writes it."""
    return _strip_kind(written, EXPERIMENT_KIND)


def read_trial_names(written: str | Sequence[str]) -> Any:
    """The same for one Trial or for several."""
    if isinstance(written, str):
        return _strip_kind(written, TRIAL_KIND)
    return [_strip_kind(name, TRIAL_KIND) for name in written]


def _strip_kind(written: str, kind: str) -> str:
    word = kind.lower()
    return written.removeprefix(f"{word}.{GROUP}/").removeprefix(f"{word}/")


ExperimentName = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="Name of the Experiment.",
        callback=read_experiment_name,
        autocompletion=complete_experiments,
    ),
]
TrialName = Annotated[
    str,
    typer.Argument(
        metavar="TRIAL", help="Name of the Trial.", callback=read_trial_names, autocompletion=complete_trials
    ),
]
TrialNames = Annotated[
    list[str],
    typer.Argument(
        metavar="TRIAL…", help="Trials of one Experiment.", callback=read_trial_names, autocompletion=complete_trials
    ),
]
TargetName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of the Trial or Experiment; trial/NAME where it is both.",
        autocompletion=complete_targets,
    ),
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace; else the context's.")]
Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig; else the current one.")]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Kubeconfig; else $KUBECONFIG or ~/.kube/config.")
]
ManifestPath = Annotated[
    Path, typer.Argument(metavar="MANIFEST", help="YAML file of an Experiment; - is standard input.")
]
FormatOption = Annotated[Format, typer.Option("--output", "-o", help="For people, or for programs.")]
TimePerIteration = Annotated[
    str,
    typer.Option("--time-per-iteration", metavar="DURATION", help="Of training, where curves don't say; such as 30s."),
]
Gpus = Annotated[
    float | None, typer.Option("--gpus", min=0, help="GPUs of the cluster; else as many as are asked for.")
]
EvaluationTime = Annotated[
    str,
    typer.Option("--evaluation-time", metavar="DURATION", help="How long an evaluation runs (spec.evaluation)."),
]
PodStart = Annotated[
    str, typer.Option("--pod-start", metavar="DURATION", help="From a pod's placement until training begins.")
]


StoreEndpoint = Annotated[
    str, typer.Option("--endpoint", metavar="URL", help="The store's server, as it is reached from here.")
]
StoreRegion = Annotated[str, typer.Option("--region", help="Region of an S3 bucket.")]
OwnCredentials = Annotated[
    bool, typer.Option("--own-credentials", help="Your own credentials, not those of the Experiment's Secret.")
]
AgentImage = Annotated[
    str,
    typer.Option("--agent-image", metavar="IMAGE", help="Of the pod that reads a volume; else the operator's agent."),
]


def read_duration_option(text: str, option: str) -> float:
    """Reads a length of time such as 90s, 10m or 1h30m that was given for an option, in seconds."""
    from podtune.api.base import parse_duration  # noqa: PLC0415 - `version` does without the models, and starts faster

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error
