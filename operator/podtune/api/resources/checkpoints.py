"""Where a trial's checkpoints go, how they are stored, and what else of its directory is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from podtune.api.base import ApiModel, Duration, FieldError, Form, Size
from podtune.api.object_names import ObjectName
from podtune.api.tuning.plugin import Plugin

_PART = r"\.*[A-Za-z0-9!_*'()-][A-Za-z0-9!_.*'()-]*"
"""What lies between two slashes of a key: neither . nor .., since there are servers that fold them away."""
STORE_KINDS = ("bucket", "gcs", "azure", "volume", "plugin")
"""The fields of a store of which one says what it is; `bucket` is of S3."""
_SERVED = ("bucket", "gcs", "azure")
GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "endpoint": _SERVED,
    "ca_bundle": _SERVED,
    "region": ("bucket",),
    "addressing": ("bucket",),
    "kms_key_id": ("bucket",),
    "wire_checksums": ("bucket",),
    "credentials_secret": (*_SERVED, "plugin"),
}
"""Fields of a store that say how it is reached, and the kinds that have them."""
GlobPattern = Annotated[str, Field(min_length=1, max_length=256)]


def join_kinds(kinds: Sequence[str]) -> str:
    """Kinds of stores in a sentence."""
    return " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


class CertificateBundle(ApiModel):
    """Certificates of authorities in an object of the Experiment's namespace."""

    kind: Literal["ConfigMap", "Secret"] = Field(default="ConfigMap", description="Kind of the object.")
    name: ObjectName = Field(description="Its name.")
    key: Annotated[
        str, Field(max_length=253), Form("[A-Za-z0-9._-]+", "is not a valid key; use letters, digits, ., _ and -")
    ] = Field(default="ca.crt", description="The key that holds the certificates (PEM).")


class CheckpointVolume(ApiModel):
    """A volume of the Experiment's namespace, which the agent mounts, and never the program."""

    claim_name: ObjectName = Field(
        description=(
            "Name of its PersistentVolumeClaim, which must exist. Unless its access mode is ReadWriteMany, all pods "
            "that use it run on one node."
        )
    )


class GcsBucket(ApiModel):
    """A bucket of Google Cloud Storage."""

    bucket: Annotated[
        str,
        Form(
            "[a-z0-9][a-z0-9._-]*[a-z0-9]",
            "is not a valid bucket name; use 3 to 222 lowercase letters, digits, -, _ and ., with a letter or digit at "
            "both ends",
        ),
    ] = Field(min_length=3, max_length=222, description="Name of the bucket; it must exist.")


class AzureContainer(ApiModel):
    """A container of Azure Blob Storage."""

    account: Annotated[
        str, Form("[a-z0-9]{3,24}", "is not a valid storage account name; use 3 to 24 lowercase letters and digits")
    ] = Field(max_length=24, description="Name of the storage account.")
    container: Annotated[
        str,
        Form(
            "[a-z0-9](-?[a-z0-9])+",
            "is not a valid container name; use 3 to 63 lowercase letters, digits and single -, with a letter or digit "
            "at both ends",
        ),
    ] = Field(min_length=3, max_length=63, description="Name of the container; it must exist.")


class StorePlugin(Plugin):
    """A store that a package in the agent's image provides."""


class CheckpointStore(ApiModel):
    """An S3-compatible bucket, a bucket of Google's, a container of Azure's, a volume, or what a plugin provides."""

    bucket: (
        Annotated[
            str,
            Form(
                "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
                "is not a valid bucket name; use 3 to 63 lowercase letters, digits, - and ., with a letter or digit at "
                "both ends",
            ),
        ]
        | None
    ) = Field(default=None, max_length=63, description="Name of an S3 bucket; it must exist.")
    gcs: GcsBucket | None = Field(
        default=None, description="A bucket of Google Cloud Storage in place of an S3 bucket."
    )
    azure: AzureContainer | None = Field(
        default=None, description="A container of Azure Blob Storage in place of an S3 bucket."
    )
    volume: CheckpointVolume | None = Field(
        default=None, description="A volume in place of a bucket: each object is a file on it."
    )
    plugin: StorePlugin | None = Field(
        default=None, description="A store that a package in the agent's image provides, in place of a bucket."
    )
    prefix: Annotated[
        str,
        Form(
            f"({_PART}(/{_PART})*)?",
            "is not a valid prefix; write it like team/project, without a slash at either end, and without . or .. "
            "between slashes",
        ),
    ] = Field(default="", max_length=256, description="Prefix of every key, without a slash at either end.")
    endpoint: (
        Annotated[str, Form(r"https?://[^\s/]+/?", "is not the URL of a server; write it like https://s3:9000")] | None
    ) = Field(default=None, max_length=512, description="URL of the server. Defaults to that of AWS, Google or Azure.")
    region: str | None = Field(
        default=None, min_length=1, max_length=64, description="Region of the bucket. Defaults to us-east-1."
    )
    addressing: Literal["Auto", "Path", "VirtualHost"] | None = Field(
        default=None,
        description=(
            "Where requests name the bucket: in the path or in the host name. Auto, the default, uses the path if "
            "endpoint is set or the bucket's name contains a dot."
        ),
    )
    credentials_secret: ObjectName | None = Field(
        default=None,
        description=(
            "Secret in this namespace. For S3, it has the keys accessKeyID and secretAccessKey (and sessionToken, if "
            "needed); for gcs, serviceAccountKey; for azure, accountKey, sasToken, or tenantID, clientID and "
            "clientSecret; for a plugin, what it asks for. Without it, the pod uses the identity of its service "
            "account or node."
        ),
    )
    ca_bundle: CertificateBundle | None = Field(
        default=None,
        description=(
            "Certificate authorities for an https endpoint. An S3 bucket trusts them instead of the system's, gcs and "
            "azure besides those."
        ),
    )
    kms_key_id: str | None = Field(
        default=None,
        alias="kmsKeyID",
        min_length=1,
        max_length=512,
        description="AWS KMS key that encrypts the objects. Without one, the bucket's default encryption applies.",
    )
    wire_checksums: Literal["whenRequired", "whenSupported"] | None = Field(
        default=None,
        description=(
            "Every request is signed with the SHA-256 of its body. With whenSupported, uploads also send that hash as "
            "the object's checksum, which AWS keeps; stores that don't support it are sent none. Defaults to "
            "whenRequired."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in STORE_KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            raise ValueError(f"needs exactly one of {', '.join(STORE_KINDS)}; found {found}; give one")
        for name, kinds in GOES_WITH.items():
            if getattr(self, name) is not None and given[0] not in kinds:
                written = type(self).model_fields[name].alias or name
                raise FieldError(
                    written, f"{written} goes with {join_kinds(kinds)}, and not with {given[0]}; remove it"
                )
        return self

    @property
    def uri(self) -> str:
        """The store's own URI: agents make the same one of what they are told."""
        if self.gcs is not None:
            return f"gs://{self.gcs.bucket}"
        if self.azure is not None:
            return f"az://{self.azure.container}"
        if self.volume is not None:
            return f"volume://{self.volume.claim_name}"
        return f"plugin://{self.plugin.name}" if self.plugin is not None else f"s3://{self.bucket}"

    @property
    def reached(self) -> str:
        """What the addresses begin with, before a slash, that agents of this store can export to."""
        scheme, _, _ = self.uri.partition("/")
        return self.uri if self.volume is not None or self.plugin is not None else f"{scheme}/"

    def build_prefix(self, *parts: str) -> str:
        """URI that begins those of all that lies at a path below the store's prefix; it ends with a slash."""
        return "/".join(part for part in (self.uri, self.prefix, *parts) if part) + "/"


class KeepOfExperiment(ApiModel):
    """Which checkpoints stay for what they are worth among those of all trials."""

    best: int = Field(ge=1, le=1000, description="How many trials keep their best checkpoint.")


class Keep(ApiModel):
    """Which of a trial's checkpoints stay in the bucket."""

    count: int = Field(default=2, ge=1, le=32, description="How many checkpoints to keep per trial.")
    by: Literal["latest", "best"] = Field(
        default="latest",
        description="Whether to keep the latest checkpoints or the best by the objective. The latest is always kept.",
    )
    stopped: int | None = Field(
        default=None,
        ge=0,
        le=32,
        description=(
            "How many checkpoints stay of a trial that was stopped, by the scheduler or by its user; as many as count "
            "when it is left out. With 0 a stop waits for no checkpoint."
        ),
    )
    of_experiment: KeepOfExperiment | None = Field(
        default=None,
        description=(
            "So many stopped trials keep their best checkpoint nevertheless: those that are among the best trials of "
            "the experiment. 1 when it is left out, so that the best trial always has its checkpoint."
        ),
    )

    @property
    def best_of_experiment(self) -> int:
        """How many of the best trials keep their best checkpoint, also if they were stopped."""
        return self.of_experiment.best if self.of_experiment is not None else 1

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.of_experiment is not None and self.stopped is None:
            raise FieldError(
                "ofExperiment", "is set, and stopped trials keep as many checkpoints as others; set stopped, such as 0"
            )
        return self


class Sync(ApiModel):
    """Timeout and retries for storing and restoring."""

    timeout: Duration = Field(
        default="30m",
        description=(
            "A checkpoint or restore that takes longer is aborted and tried again. A pause or a stop waits this long "
            "for the last reported checkpoint to be stored."
        ),
    )
    retries: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description=(
            "How often to retry a checkpoint that can't be stored, with a backoff that doubles from 0.5 s to 15 s. "
            "After that it is given up, and the trial continues with the next one."
        ),
    )


class Artifacts(ApiModel):
    """Files of the shared directory that are stored besides results and checkpoints."""

    include: list[GlobPattern] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        max_length=32,
        description=(
            "Patterns of files below /podtune to store. Checkpoints and Podtune's own files are never included."
        ),
    )
    exclude: list[GlobPattern] = Field(
        default_factory=list, max_length=32, description="Patterns of files and directories to leave out."
    )
    period: Duration = Field(default="5m", description="How often to store changed files while the program runs.")
    on_checkpoint: bool = Field(
        default=True,
        description="Whether to store changed files after each checkpoint, too. They are always stored at the end.",
    )


class Scratch(ApiModel):
    """A volume that each trial keeps across its attempts."""

    storage_class_name: ObjectName | None = Field(
        default=None, description="Storage class of the volume. Defaults to the cluster's default class."
    )
    size: Size = Field(description="Size of the volume. It must hold a checkpoint.")


class Export(ApiModel):
    """What to copy to a fixed address when the experiment ends."""

    trials: Literal["Best", "All"] = Field(
        default="Best", description="Which checkpoints to copy: the best trial's, or the best of each trial."
    )
    to: (
        Annotated[
            str,
            Form(
                f"(s3|gs|az|volume|plugin)://[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?(/{_PART})+",
                "is not an address in a store; write it like s3://bucket/path, gs://bucket/path or "
                "az://container/path, without a slash at the end and without . or ..",
            ),
        ]
        | None
    ) = Field(
        default=None,
        max_length=512,
        description=(
            "Where to copy them: to a bucket on the same server, with the same credentials (s3://<bucket>/path, "
            "gs://<bucket>/path, az://<container>/path), or to the same volume (volume://<claim>/path) or plugin "
            "(plugin://<name>/path). Defaults to <prefix>/exports/<experiment> in the store. With Best, the "
            "checkpoint is stored below it as best; with All, each under its trial's name."
        ),
    )


class Checkpoints(ApiModel):
    """Where checkpoints go, how they are stored and how many are kept."""

    ranks: Literal["All", "RankZero"] = Field(
        default="All",
        description=(
            "For a gang. All: every rank stores a shard of each checkpoint, which is complete once all shards are "
            "stored. RankZero: rank 0 stores the whole checkpoint."
        ),
    )
    store: CheckpointStore | None = Field(
        default=None,
        description="Where checkpoints go. Without a store nothing is stored, and a retry starts from scratch.",
    )
    keep: Keep = Field(default_factory=Keep, description="Which checkpoints of a trial to keep.")
    export: Export | None = Field(
        default=None,
        description="Copy checkpoints, with a model card, to a fixed address before the experiment is marked complete.",
    )
    deletion_policy: Literal["Retain", "Delete"] = Field(
        default="Retain",
        description=(
            "What happens to everything the experiment stored when you delete it. Retain: it stays in the bucket. "
            "Delete: it is deleted first; the finalizer podtune.dev/checkpoints holds the Experiment until then, and "
            "`kubectl podtune release` removes the finalizer if no operator is running."
        ),
    )
    layout: Literal["Plain", "Packed"] = Field(
        default="Plain",
        description=(
            "Plain: each file is one object. Packed: files below 1 MiB share objects of 4 MiB, which is much faster "
            "for many small files, and files above 64 MiB are split into objects of 16 MiB. Each file can still be "
            "read by byte range."
        ),
    )
    reuse_unchanged: bool = Field(
        default=True,
        description=(
            "Whether to refer to a file that an earlier checkpoint of the trial stored instead of storing it again. If "
            "false, each checkpoint holds all of its files."
        ),
    )
    exclude: list[GlobPattern] = Field(
        default_factory=list,
        max_length=32,
        description="Patterns of files and directories to leave out of checkpoints, such as *.tmp.",
    )
    sync: Sync = Field(default_factory=Sync, description="Timeout and retries for storing and restoring checkpoints.")
    request_timeout: Duration = Field(
        default="1m",
        description=(
            "How long a pause waits for the program to report the requested checkpoint. Storing it may then take up to "
            "sync.timeout."
        ),
    )
    drain: Duration = Field(
        default="10m",
        description=(
            "How long a pod stays after its program ends so that the last checkpoint can be stored. The pod's "
            "termination grace period is this plus the template's."
        ),
    )
    artifacts: Artifacts | None = Field(default=None, description="Other files of the shared directory to store.")

    scratch: Scratch | None = Field(
        default=None,
        description=(
            "Gives each trial its own PersistentVolumeClaim until the trial ends, with a copy of its last checkpoint. "
            "A retry reads files from it, verified by hash, instead of downloading them from the bucket."
        ),
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.scratch is not None and self.store is None:
            raise FieldError("scratch", "is set, but there are no checkpoints without a store; set checkpoints.store")
        if self.artifacts is not None and self.store is None:
            raise FieldError("artifacts", "is set, but there is no store for them; set checkpoints.store, too")
        if self.store is not None and self.export is not None and self.export.to is not None:
            reached = self.store.reached
            if not self.export.to.startswith(f"{reached}/"):
                raise FieldError(
                    "export.to",
                    f"{self.export.to!r} is where this store's agents can't get to; begin it with {reached}/, or leave "
                    "it out",
                )
        return self
