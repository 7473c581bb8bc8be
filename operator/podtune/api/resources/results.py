"""How the results of trials are read, and how much of them is kept."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form, Size, parse_duration
from podtune.api.tuning.objective import MetricName
from podtune.protocol.agent_environment import ENDPOINT_PORT, HUGGING_FACE, MLFLOW, SOURCE_NAMES

SCRIPT_SOURCES = (*SOURCE_NAMES, "scrape", "tensorBoard", "wandb")
"""The fields of results for scripts that know nothing of Podtune, besides stdout."""
_LONGEST_PERIOD = 3600
_DIRECTORY = "([A-Za-z0-9_][A-Za-z0-9_.-]*|[*])"
"""One directory of a path, which can't lead upwards."""


class StdoutResults(ApiModel):
    """Results read off the trial's standard output."""

    pattern: str = Field(
        min_length=1,
        max_length=512,
        description=(
            "A regular expression (Python syntax) with named groups. Each matching line is a result with the groups' "
            "values, for example: epoch=(?P<epoch>\\d+) loss=(?P<loss>\\S+). With the groups name and value, each line "
            "reports one metric, and several lines make a result: (?P<name>\\w+)=(?P<value>\\S+)"
        ),
    )
    last: MetricName | None = Field(
        default=None,
        description=(
            "For a pattern with the groups name and value: the metric printed last in each result, which completes it. "
            "Without it, a result is complete when one of its metrics is printed again or the program ends."
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
                f"{pattern!r} has no named group; name a group after each metric, as in loss=(?P<loss>\\S+)"
            )
        return pattern

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.last is not None and not {"name", "value"} <= re.compile(self.pattern).groupindex.keys():
            problem = "applies only to a pattern with the groups name and value, which makes a result of several lines"
            raise FieldError("last", f"{problem}; remove it, or change the pattern")
        return self


class HuggingFaceResults(ApiModel):
    """How results are read from the trainer of transformers; there is nothing to set."""


class MlflowResults(ApiModel):
    """How results are read from what a script logs to MLflow; there is nothing to set."""


class ScrapeResults(ApiModel):
    """Results scraped from metrics that the trial serves to Prometheus."""

    port: int = Field(
        ge=1, le=65535, description="The port that the training program listens on, on 127.0.0.1 or all addresses."
    )
    path: Annotated[
        str,
        Field(max_length=256),
        Form("/[A-Za-z0-9._~/?&%:@,;+=-]*", "is not a path of a URL; write it like /metrics"),
    ] = Field(default="/metrics", description="The path of the metrics, with a query if need be.")
    period: Duration = Field(
        default="1s",
        description=(
            "How often to scrape, from 1s to 1h. Values that the program sets within the last period before its end "
            "may be missed."
        ),
    )
    time_attribute: MetricName | None = Field(
        default=None,
        description=(
            "The metric that says how far training is, such as epoch. Each new value of it is a result, even if the "
            "objective stays the same."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.port == ENDPOINT_PORT:
            raise FieldError("port", f"{self.port} is the port of Podtune's agent; have the program use another")
        if not 0 < parse_duration(self.period) <= _LONGEST_PERIOD:
            raise FieldError("period", f"{self.period!r} is not between 1s and 1h; write a duration in between")
        return self


class TensorBoardResults(ApiModel):
    """Results read from event files of TensorBoard."""

    directory: Annotated[
        str,
        Field(max_length=256),
        Form(
            f"{_DIRECTORY}(/{_DIRECTORY})*",
            "is not a directory below $PODTUNE_DIR; write names with slashes between them, such as logs/fit, or * for "
            "a name that differs from run to run",
        ),
    ] = Field(
        default="tensorboard",
        description=(
            "The directory that the script logs to, below $PODTUNE_DIR (/podtune in a pod). A * stands for any one "
            "directory, such as one that the script names after the time. Directories deeper down become a part of "
            "metrics' names."
        ),
    )


class WandbResults(ApiModel):
    """How results are read from what a script logs to Weights & Biases; there is nothing to set."""


class Results(ApiModel):
    """How results are read, besides the results file and `podtune.trial.report()`, which always work, and kept."""

    stdout: StdoutResults | None = Field(default=None, description="Read results from standard output.")
    hugging_face: HuggingFaceResults | None = Field(
        default=None,
        description=(
            "Read results from a Trainer of Hugging Face transformers 5 or later, or of TRL, whose script stays as it "
            "is: set it to {}. The Trainer posts its status to the agent in its pod, as to Kubeflow Trainer. Each new "
            "evaluation becomes one result, with the metric current_step."
        ),
    )
    mlflow: MlflowResults | None = Field(
        default=None,
        description=(
            "Read results from a script that logs to MLflow, by its fluent API or by autologging, and that stays as it "
            "is: set it to {}. The agent in its pod is the tracking server. Each value of the objective becomes a "
            "result, with the metric step and the latest values of all other metrics."
        ),
    )
    scrape: ScrapeResults | None = Field(
        default=None,
        description=(
            "Read results from metrics that the trial serves to Prometheus, as text. The agent in its pod scrapes it. "
            "A new value of the objective or of timeAttribute becomes a result, with the values of all other metrics."
        ),
    )
    tensor_board: TensorBoardResults | None = Field(
        default=None,
        description=(
            "Read results from event files that the script writes for TensorBoard, as Keras and PyTorch do. "
            "Each value of the objective becomes a result, with the metric step and the latest values of all other "
            "tags."
        ),
    )
    wandb: WandbResults | None = Field(
        default=None,
        description=(
            "Read results from a script that logs to Weights & Biases by the package wandb, and that stays as it is: "
            "set it to {}. The script runs in offline mode, unless it has a key or trackers.wandb is set. The agent "
            "reads the files of its runs. Each value of the objective becomes a result, with the metric step and the "
            "latest values of all other metrics. Releases of wandb before 0.31 write their files late: schedulers hear "
            "of most results at the end."
        ),
    )
    keep: Size = Field(
        default="256Mi",
        description=(
            "How much of an attempt's results to keep in checkpoints.store, for each pod: the first segment and the "
            "latest ones. The agent stores new results every ten seconds. 0 stores none. A change applies to pods that "
            "are created after it."
        ),
    )

    @property
    def script_sources(self) -> tuple[str, ...]:
        """Those of `SCRIPT_SOURCES` that are set."""
        others = {"scrape": self.scrape, "tensorBoard": self.tensor_board, "wandb": self.wandb}
        return (*self.sources, *(name for name, settings in others.items() if settings is not None))

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of programs whose requests the agent answers, by the names of their fields here."""
        fields = {HUGGING_FACE: self.hugging_face, MLFLOW: self.mlflow}
        return tuple(name for name, settings in fields.items() if settings is not None)

    def check_sources(self, objective: str) -> None:
        """Checks that no result would count twice, where one script reports by all that is set.

        Each source makes results of its own, and all but stdout only of the objective: a second one either counts each
        value once more or is of no use. What stdout has besides the objective may well be wanted.

        Raises:
            FieldError: Two sources have the objective.
        """
        sources = self.script_sources
        if len(sources) > 1:
            raise FieldError(f"results.{sources[1]}", describe_second_source(sources[1]))
        if sources and self.stdout is not None and objective in re.compile(self.stdout.pattern).groupindex:
            raise FieldError(
                "results.stdout",
                f"reads {objective} besides {sources[0]}, so each value would count twice; remove one of them, or take "
                f"{objective} out of the pattern",
            )


def describe_second_source(name: str) -> str:
    """Says why one of `SCRIPT_SOURCES` can't be set besides another."""
    return (
        f"is set besides another source; each makes results of its own, so each value would count twice; keep one of "
        f"{', '.join(SCRIPT_SOURCES)}, or set evaluation, whose script may have {name} for itself"
    )
