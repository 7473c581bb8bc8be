"""Where a trial's checkpoints go, how they are stored, and what else of its directory is kept."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form
from podtune.api.object_names import ObjectName

_PART = r"\.*[A-Za-z0-9!_*'()-][A-Za-z0-9!_.*'()-]*"
"""What lies between two slashes of a key: neither . nor .., since there are servers that fold them away."""
GlobPattern = Annotated[str, Field(min_length=1, max_length=256)]


class CertificateBundle(ApiModel):
    """Certificates of authorities in an object of the Experiment's namespace."""

    kind: Literal["ConfigMap", "Secret"] = Field(default="ConfigMap", description="What kind of object it is.")
    name: ObjectName = Field(description="Its name.")
    key: Annotated[
        str, Field(max_length=253), Form("[A-Za-z0-9._-]+", "can't be a key; use letters, digits, ., _ and -")
    ] = Field(default="ca.crt", description="The key that holds the certificates (PEM).")


class CheckpointStore(ApiModel):
    """An S3-compatible bucket."""

    bucket: Annotated[
        str,
        Form(
            "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
            "can't name a bucket; use 3 to 63 small letters, digits, - and ., with a letter or digit at both ends",
        ),
    ] = Field(max_length=63, description="Name of the bucket; it must exist.")
    prefix: Annotated[
        str,
        Form(
            f"({_PART}(/{_PART})*)?",
            "can't be a prefix; write it like team/project, without slashes at its ends, and no . or .. between them",
        ),
    ] = Field(default="", max_length=256, description="Put before every key, without slashes at its ends.")
    endpoint: (
        Annotated[str, Form(r"https?://[^\s/]+/?", "is not the URL of a server; write it like https://s3:9000")] | None
    ) = Field(default=None, max_length=512, description="URL of the S3 server; AWS when it is left out.")
    region: str = Field(default="us-east-1", min_length=1, max_length=64, description="Region of the bucket.")
    addressing: Literal["Auto", "Path", "VirtualHost"] = Field(
        default="Auto",
        description=(
            "Where requests name the bucket: in the path, or in the host's name. Auto takes the path where there is an "
            "endpoint, or a dot in the bucket's name."
        ),
    )
    credentials_secret: ObjectName | None = Field(
        default=None,
        description=(
            "Secret of this namespace with the keys accessKeyID and secretAccessKey (and sessionToken, if needed). "
            "Without it, the credentials of the pod's service account or node are used."
        ),
    )
    ca_bundle: CertificateBundle | None = Field(
        default=None, description="Authorities that are believed instead of the system's when the endpoint is https."
    )
    kms_key_id: str | None = Field(
        default=None,
        alias="kmsKeyID",
        min_length=1,
        max_length=512,
        description="Key of AWS KMS that objects are encrypted with; without one, the bucket's own rule holds.",
    )
    wire_checksums: Literal["whenRequired", "whenSupported"] = Field(
        default="whenRequired",
        description=(
            "Every request is signed with the SHA-256 of its body. whenSupported also sends it as the object's "
            "checksum, which AWS keeps; stores that don't know it get none."
        ),
    )


class Keep(ApiModel):
    """Which of a trial's checkpoints stay in the bucket."""

    count: int = Field(default=2, ge=1, le=32, description="How many checkpoints of a trial are kept.")
    by: Literal["latest", "best"] = Field(
        default="latest",
        description="Keep the latest ones, or the best ones by the objective (the latest is always kept too).",
    )


class Sync(ApiModel):
    """How long, and how often, storing something is tried."""

    timeout: Duration = Field(
        default="30m",
        description=(
            "A checkpoint, or a restore, that takes longer is broken off and tried again. A pause or a stop waits so "
            "long for the newest checkpoint that was reported before."
        ),
    )
    retries: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description=(
            "How often a checkpoint that can't be stored is tried again, with waits of 0.5 s that double to 15 s; "
            "after that it is given up, and the trial goes on with the next one."
        ),
    )


class Artifacts(ApiModel):
    """Files of the shared directory that are stored besides results and checkpoints."""

    include: list[GlobPattern] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        max_length=32,
        description="Patterns of files below /podtune; checkpoints and Podtune's own files are never among them.",
    )
    exclude: list[GlobPattern] = Field(
        default_factory=list, max_length=32, description="Patterns of files and directories that are left out."
    )
    period: Duration = Field(default="5m", description="How often what has changed is stored, while the program runs.")
    on_checkpoint: bool = Field(
        default=True, description="Whether that is done after each checkpoint as well; at the end it always is."
    )


class Scratch(ApiModel):
    """A volume that each trial keeps over its attempts."""

    storage_class_name: ObjectName | None = Field(
        default=None, description="Its storage class; the cluster's default one when it is left out."
    )
    size: Annotated[
        str,
        Field(max_length=20),
        Form("[0-9]+(\\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?", "is not a size; write it like 50Gi"),
    ] = Field(description="Its size: a checkpoint has to fit on it.")


class Export(ApiModel):
    """What is copied to a place of its own when the experiment ends."""

    trials: Literal["Best", "All"] = Field(
        default="Best", description="Whose checkpoints: that of the best trial, or the best one of each trial."
    )
    to: (
        Annotated[
            str,
            Form(
                f"s3://[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9](/{_PART})+",
                "is no address in a bucket; write it like s3://bucket/path, without a slash at the end, or . or ..",
            ),
        ]
        | None
    ) = Field(
        default=None,
        max_length=512,
        description=(
            "The place below which they are copied, on the same server and with the same credentials; "
            "<prefix>/exports/<experiment> of the store's bucket when it is left out. The best trial's is at best, or "
            "with All each at its trial's name."
        ),
    )


class Checkpoints(ApiModel):
    """Where checkpoints go, how they are stored and how many are kept."""

    ranks: Literal["All", "RankZero"] = Field(
        default="All",
        description=(
            "Of a gang: whether every rank stores a shard of each checkpoint, which counts once all of them have, or "
            "rank 0 stores it alone."
        ),
    )
    store: CheckpointStore | None = Field(
        default=None, description="The bucket. Without one nothing is stored, and a retry starts afresh."
    )
    keep: Keep = Field(default_factory=Keep, description="Which checkpoints of a trial are kept.")
    export: Export | None = Field(
        default=None,
        description="Copy checkpoints with a model card to a stable place, before the experiment is called complete.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description=(
            "What becomes of all that the experiment has stored when it is deleted: it stays in the bucket, or is "
            "deleted first. With Delete the Experiment has the finalizer podtune.dev/checkpoints; "
            "`kubectl podtune release` takes it off without an operator."
        ),
    )
    layout: Literal["Plain", "Packed"] = Field(
        default="Plain",
        description=(
            "Plain: each file is an object. Packed: files below 1 MiB share objects of 4 MiB, which is faster by far "
            "where there are many, and those above 64 MiB are split into objects of 16 MiB; each can still be read by "
            "its byte range."
        ),
    )
    reuse_unchanged: bool = Field(
        default=True,
        description=(
            "Whether a file that an earlier checkpoint of the trial has stored is referred to, instead of being stored "
            "again. False: each checkpoint's files lie together."
        ),
    )
    exclude: list[GlobPattern] = Field(
        default_factory=list,
        max_length=32,
        description="Patterns of files and directories that are left out of checkpoints, such as *.tmp.",
    )
    sync: Sync = Field(default_factory=Sync, description="How long, and how often, storing is tried.")
    request_timeout: Duration = Field(
        default="1m",
        description=(
            "How long a pause waits for the program to report the checkpoint that it is asked for. Once it is "
            "reported it is stored, within sync.timeout."
        ),
    )
    drain: Duration = Field(
        default="10m",
        description=(
            "How long a pod whose program has ended stays for its last checkpoint to be stored. The pod's termination "
            "grace period is this and the template's."
        ),
    )
    artifacts: Artifacts | None = Field(default=None, description="What else of the shared directory is stored.")

    scratch: Scratch | None = Field(
        default=None,
        description=(
            "Each trial has a PersistentVolumeClaim of its own until its end, with a copy of its last checkpoint: a "
            "retry takes from there, hashes checked, what need not come from the bucket."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scratch is not None and self.store is None:
            raise FieldError("scratch", "is set, and there are no checkpoints without a store; set checkpoints.store")
        if self.artifacts is not None and self.store is None:
            raise FieldError("artifacts", "is set, and there is no store for them; set checkpoints.store, too")
        return self
