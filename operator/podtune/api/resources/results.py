"""How the results of trials are read, and how much of them is kept."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from podtune.api.base import ApiModel, FieldError, Size
from podtune.api.tuning.objective import MetricName
from podtune.protocol.agent_environment import HUGGING_FACE, MLFLOW


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
    keep: Size = Field(
        default="256Mi",
        description=(
            "How much of an attempt's results to keep in checkpoints.store, for each pod: the first segment and the "
            "latest ones. The agent stores new results every ten seconds. 0 stores none. A change applies to pods that "
            "are created after it."
        ),
    )

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of programs whose requests the agent answers, by the names of their fields here."""
        fields = {HUGGING_FACE: self.hugging_face, MLFLOW: self.mlflow}
        return tuple(name for name, settings in fields.items() if settings is not None)
