"""Where a trial's checkpoints are: bucket, prefix, and the keys below it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from podtune.protocol.assignment import format_attempt_folder
from podtune.storage.checkpoint.manifest import ManifestFile
from podtune.storage.errors import StoreSettingsError

MANIFEST = "manifest.json"
DATA = "data"
SHARDS = "parts"
PACKS = "packs"
HISTORY = "results.jsonl"
LEDGER = "ledger.jsonl"
ARTIFACTS = "artifacts"
_CHOICES = {"addressing": ("Auto", "Path", "VirtualHost"), "wire_checksums": ("whenRequired", "whenSupported")}


def is_manifest(key: str) -> bool:
    """Whether a key is that of a checkpoint's manifest, and not of a file of the same name in a checkpoint."""
    return key.endswith(f"/{MANIFEST}") and f"/{DATA}/" not in key


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An S3-compatible bucket.

    Attributes:
        bucket: Its name.
        prefix: Put before every key, without slashes at its ends.
        endpoint: URL of the server; AWS when None.
        region: Region of the bucket.
        addressing: Where the bucket's name stands: `Path`, `VirtualHost`, or `Auto`, which takes the path unless the
            server is AWS.
        ca_file: File with authorities that are believed instead of the system's; none when empty.
        kms_key: The key of AWS KMS that objects are encrypted with; the bucket's own rule when empty.
        wire_checksums: Whether objects are sent with a checksum that the store keeps: `whenSupported` or
            `whenRequired`. Either way every request is signed with the SHA-256 of its body.
        credentials: Directory in which the Secret with the credentials is mounted, called as the Secret is; when empty,
            credentials are looked for as the SDK does it.
    """

    bucket: str
    prefix: str = ""
    endpoint: str | None = None
    region: str = "us-east-1"
    addressing: str = "Auto"
    ca_file: str = ""
    kms_key: str = ""
    wire_checksums: str = "whenRequired"
    credentials: str = ""

    @property
    def where(self) -> str:
        """Bucket and server, for messages."""
        return f"bucket {self.bucket!r} at {self.endpoint or f'AWS ({self.region})'}"

    @property
    def secret(self) -> str:
        """Name of the Secret that the credentials come from; empty where there is none."""
        return self.credentials.rpartition("/")[2]

    def experiment_prefix(self, uid: str) -> str:
        """What all keys of an experiment start with; it ends with a slash."""
        return "/".join(chunk for chunk in (self.prefix, uid) if chunk) + "/"

    @classmethod
    def from_json(cls, text: str) -> StoreAddress:
        """Reads a JSON object of the attributes; all but the bucket may be missing or null.

        Raises:
            StoreSettingsError: It is not that; the message names the field.
        """
        try:
            body = json.loads(text)
        except ValueError as error:
            raise StoreSettingsError(f"the store's settings are not JSON: {error}") from error
        if not isinstance(body, dict):
            raise StoreSettingsError("the store's settings are not a JSON object")
        values = {name: body[name] for name in cls.__slots__ if body.get(name) is not None}
        for name, value in values.items():
            if not isinstance(value, str):
                raise StoreSettingsError(f"the store's {name} is {value!r}, which is not a string")
        if not values.get("bucket"):
            raise StoreSettingsError("the store's bucket is missing; name an existing bucket")
        for name, known in _CHOICES.items():
            if values.get(name, known[0]) not in known:
                raise StoreSettingsError(f"the store's {name} is {values[name]!r}; write one of {', '.join(known)}")
        return cls(**values)


@dataclass(frozen=True, slots=True)
class TrialAddress:
    """The address of one trial in a bucket.

    Attributes:
        experiment_uid: UID of the Experiment.
    """

    store: StoreAddress
    experiment_uid: str
    trial: str

    @property
    def prefix(self) -> str:
        """What all keys of the trial start with; it ends with a slash."""
        return "/".join(chunk for chunk in (self.store.prefix, self.experiment_uid, self.trial) if chunk) + "/"

    def checkpoint(self, attempt: str, step: str) -> CheckpointAddress:
        """The address of one checkpoint."""
        return CheckpointAddress(self.store.bucket, f"{self.prefix}{format_attempt_folder(attempt)}/{step}")

    def attempt(self, attempt: str) -> str:
        """What all keys of an attempt start with; it ends with a slash."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/"

    def history(self, attempt: str) -> str:
        """The key of an attempt's results."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{HISTORY}"

    def artifact(self, attempt: str, path: str) -> str:
        """The key of a file that is neither results nor checkpoint; `path` is relative to the shared directory."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{ARTIFACTS}/{path}"

    def ledger(self, attempt: str) -> str:
        """The key of the decisions on the trial that an attempt has heard of."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{LEDGER}"

    @property
    def orphan_ledger(self) -> str:
        """The key of the decisions on the trial that no attempt has stored."""
        return f"{self.prefix}{LEDGER}"


@dataclass(frozen=True, slots=True)
class CheckpointAddress:
    """The address of one checkpoint: data below `data/`, and beside it the manifest.

    Attributes:
        root: What all its keys start with, before a slash.
    """

    bucket: str
    root: str

    @property
    def uri(self) -> str:
        """`s3://bucket/root`, as it stands in a trial's status."""
        return f"s3://{self.bucket}/{self.root}"

    @property
    def manifest(self) -> str:
        """The manifest's key."""
        return f"{self.root}/{MANIFEST}"

    def data(self, path: str) -> str:
        """The key of one file of the checkpoint."""
        return f"{self.root}/{DATA}/{path}"

    def shard(self, rank: int) -> str:
        """The key of a rank's shard: the manifest of its files."""
        return f"{self.root}/{SHARDS}/{rank}.json"

    def pack(self, writer: int, number: int) -> str:
        """The key of an object that holds several small files; several writers may each store a shard."""
        return f"{self.root}/{PACKS}/{writer}-{number}"

    @property
    def trial_prefix(self) -> str:
        """What all keys of the trial start with that it belongs to; it ends with a slash."""
        return self.root.rsplit("/", 2)[0] + "/"

    def data_chunk(self, path: str, number: int) -> str:
        """The key of a chunk, from 0, of a file of the checkpoint that is split."""
        return _format_chunk_key(self.data(path), number)

    def find_object(self, file: ManifestFile) -> str:
        """The key of the object that holds a file of this checkpoint's manifest, from byte `file.offset` on.

        Of a file that is split it is what the keys of its chunks have in common.
        """
        return f"{self.trial_prefix}{file.object}" if file.object else self.data(file.path)

    def find_chunk(self, file: ManifestFile, number: int) -> tuple[str, int]:
        """The key of the object that holds a chunk of a file, from 0, and the chunk's first byte in there."""
        key = self.find_object(file)
        return (_format_chunk_key(key, number), 0) if file.split else (key, file.offset + number * file.chunk_size)

    def list_objects(self, file: ManifestFile) -> list[str]:
        """The keys of all objects that a file of this checkpoint's manifest lies in."""
        key = self.find_object(file)
        return [_format_chunk_key(key, number) for number in range(len(file.chunks))] if file.split else [key]

    @property
    def step(self) -> int:
        """The iteration after which it was taken; -1 where the address doesn't say."""
        step = self.root.rpartition("/")[2].partition(".")[0]
        return int(step) if step.isascii() and step.isdigit() else -1

    @classmethod
    def from_uri(cls, uri: str) -> CheckpointAddress:
        """Reads an URI back.

        Raises:
            StoreSettingsError: It is not one of a checkpoint.
        """
        scheme, _, rest = uri.partition("://")
        bucket, _, root = rest.partition("/")
        if scheme != "s3" or not bucket or not root or root.endswith("/"):
            raise StoreSettingsError(f"{uri!r} is not the URI of a checkpoint; it looks like s3://bucket/path/step")
        return cls(bucket, root)


def _format_chunk_key(key: str, number: int) -> str:
    """As many digits as the largest number has, so that chunks are listed in their order."""
    return f"{key}/{number:05d}"
