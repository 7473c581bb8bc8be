"""Trackers of experiments that hear of trials, each of which is one run there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from podtune.api.base import ApiModel, Form
from podtune.api.object_names import ObjectName
from podtune.api.resources.checkpoints import CertificateBundle

_URL = "https?://[^\\s/?#]+(/[^\\s?#]*)?"


class WandbRuns(ApiModel):
    """Which run of Weights & Biases a trial's program goes on with; there is nothing to set."""


class TensorBoardFiles(ApiModel):
    """Event files of TensorBoard in the store; there is nothing to set."""


class MlflowTracker(ApiModel):
    """A tracking server of MLflow that agents pass trials on to; a change applies to pods that are created after it."""

    uri: Annotated[str, Form(_URL, "is not the URL of a server; write it like http://mlflow.tracking:5000")] = Field(
        max_length=512, description="Address of the server, as pods reach it."
    )
    experiment: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="Name of the experiment there, which is made if there is none. Defaults to the Experiment's name.",
    )
    credentials_secret: ObjectName | None = Field(
        default=None,
        description=(
            "Secret in this namespace with the key MLFLOW_TRACKING_TOKEN, or the keys MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD. Only agents read it."
        ),
    )
    ca_bundle: CertificateBundle | None = Field(
        default=None, description="Certificate authorities for an https address, in place of the system's."
    )


class Trackers(ApiModel):
    """Where each trial is one run, whatever attempts and pauses it goes through."""

    mlflow: MlflowTracker | None = Field(
        default=None,
        description=(
            "Have agents pass each trial on to a tracking server of MLflow: parameters, the numbers of each result, "
            "how it ended, and which trial is the best. Training never waits for it."
        ),
    )
    wandb: WandbRuns | None = Field(
        default=None,
        description=(
            "Have each trial's program log to one run of Weights & Biases, over all attempts: set it to {}. The "
            "program's containers get WANDB_RUN_ID, WANDB_RESUME, WANDB_RUN_GROUP (the Experiment's name) and "
            "WANDB_NAME, unless the template sets them. Project, entity and key are the template's to set."
        ),
    )
    tensor_board: TensorBoardFiles | None = Field(
        default=None,
        description=(
            "Have agents store each trial's results as event files of TensorBoard, too, while it runs: set it to {}. "
            "They are in the store, below _tensorboard in the folder with the Experiment's UID. Needs "
            "checkpoints.store. A change applies to pods that are created after it."
        ),
    )
    dashboard: Annotated[str, Form(_URL, "is not a URL; write it like https://podtune.example.com")] | None = Field(
        default=None,
        max_length=512,
        description="Address of the dashboard, as people reach it: runs in MLflow link to their trials' pages there.",
    )

    @property
    def shows_ends(self) -> bool:
        """Whether agents have to know how trials end, to show it there."""
        return self.mlflow is not None or self.tensor_board is not None
