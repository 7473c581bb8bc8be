"""Work in the bucket that is done without a running trial, as an Experiment's status records it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from podtune.api.base import StatusModel, key_by
from podtune.api.conditions import MAX_MESSAGE
from podtune.protocol.storage_job import StoragePurpose


class StorageJobState(StrEnum):
    """How far a job is."""

    RUNNING = "Running"
    WAITING = "Waiting"
    """It failed, and is tried again."""
    DONE = "Done"
    FAILED = "Failed"
    """It failed as often as it is tried."""

    @property
    def is_finished(self) -> bool:
        """Whether nothing more is done about it."""
        return self in (StorageJobState.DONE, StorageJobState.FAILED)


class StorageJob(StatusModel):
    """One job: it is written down before its pod is made, and again when the pod has ended."""

    purpose: StoragePurpose = Field(description="Purpose of the job.")
    trigger: str = Field(
        default="",
        max_length=128,
        description=(
            "What the job was due for, such as the time at which the experiment ended. When this changes, the job is "
            "due again."
        ),
    )
    state: StorageJobState = Field(description="State of the job: Running, Waiting, Done or Failed.")
    pod: int = Field(ge=1, description="Number of the job's pod, <experiment>-storage-<number>.")
    tries: int = Field(ge=1, description="How many times it was tried, including the current attempt.")
    start_time: str = Field(max_length=32, description="When the current attempt began (RFC 3339).")
    retry_time: str | None = Field(default=None, max_length=32, description="When the next attempt begins.")
    completion_time: str | None = Field(default=None, max_length=32, description="When it was done or failed for good.")
    uri: str = Field(default="", max_length=1024, description="For an Export: URI of the copy of the best checkpoint.")
    message: str = Field(default="", max_length=MAX_MESSAGE, description="The outcome, or why the last attempt failed.")


class StorageStatus(StatusModel):
    """Work in the bucket, done by one short-lived pod at a time."""

    pods: int = Field(default=0, ge=0, description="How many pods the jobs have used so far.")
    jobs: list[StorageJob] = Field(
        default_factory=list,
        max_length=8,
        description="The latest job of each purpose.",
        json_schema_extra=key_by("purpose"),
    )

    def find_job(self, purpose: StoragePurpose) -> StorageJob | None:
        """The latest job of a purpose."""
        return next((job for job in self.jobs if job.purpose is purpose), None)

    def put_job(self, job: StorageJob) -> StorageStatus:
        """The status with this job in the place of the one with the same purpose."""
        others = [known for known in self.jobs if known.purpose is not job.purpose]
        return self.model_copy(update={"jobs": [*others, job], "pods": max(self.pods, job.pod)})

    def remove_job(self, purpose: StoragePurpose) -> StorageStatus:
        """The status without the job of a purpose."""
        return self.model_copy(update={"jobs": [job for job in self.jobs if job.purpose is not purpose]})
