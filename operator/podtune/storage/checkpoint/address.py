"""Where a trial's checkpoints are: store, prefix, and the keys below it."""

from __future__ import annotations

from dataclasses import dataclass

from podtune.protocol.assignment import format_attempt_folder
from podtune.storage.address import StoreAddress
from podtune.storage.checkpoint.manifest import ManifestFile

MANIFEST = "manifest.json"
DATA = "data"
SHARDS = "parts"
PACKS = "packs"
LEDGER = "ledger.jsonl"
ARTIFACTS = "artifacts"
EVENT_FILE_FOLDER = "_tensorboard"
"""No Trial can have this name."""


def is_manifest(key: str) -> bool:
    """Whether a key is that of a checkpoint's manifest, and not of a file of the same name in a checkpoint."""
    return key.endswith(f"/{MANIFEST}") and f"/{DATA}/" not in key


@dataclass(frozen=True, slots=True)
class TrialAddress:
    """The address of one trial in a store.

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
        return CheckpointAddress(self.store.uri, f"{self.prefix}{format_attempt_folder(attempt)}/{step}")

    def attempt(self, attempt: str) -> str:
        """What all keys of an attempt start with; it ends with a slash."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/"

    def segments(self, attempt: str, stream: str, rank: int) -> str:
        """What the keys of all segments of a stream of an attempt start with; it ends with a slash."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{stream}/{rank}/"

    def artifact(self, attempt: str, path: str) -> str:
        """The key of a file that is neither results nor checkpoint; `path` is relative to the shared directory."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{ARTIFACTS}/{path}"

    def ledger(self, attempt: str) -> str:
        """The key of the decisions on the trial that an attempt has heard of."""
        return f"{self.prefix}{format_attempt_folder(attempt)}/{LEDGER}"

    def event_files(self, trial: str = "") -> str:
        """What the keys of TensorBoard's files of a trial start with; without one, those of the whole experiment."""
        chunks = (self.store.prefix, self.experiment_uid, EVENT_FILE_FOLDER, trial)
        return "/".join(chunk for chunk in chunks if chunk) + "/"

    @property
    def orphan_ledger(self) -> str:
        """The key of the decisions on the trial that no attempt has stored."""
        return f"{self.prefix}{LEDGER}"


@dataclass(frozen=True, slots=True)
class CheckpointAddress:
    """The address of one checkpoint: data below `data/`, and beside it the manifest.

    Attributes:
        store: The store's URI.
        root: What all its keys start with, before a slash.
    """

    store: str
    root: str

    @property
    def uri(self) -> str:
        """Such as `s3://bucket/root`, as it stands in a trial's status."""
        return f"{self.store}/{self.root}"

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


def parse_checkpoint_uri(store: StoreAddress, uri: str) -> CheckpointAddress:
    """The checkpoint in a store that an URI means.

    Raises:
        StoreSettingsError: It is of another store, or no checkpoint's.
    """
    return CheckpointAddress(store.uri, store.find_key(uri))


def _format_chunk_key(key: str, number: int) -> str:
    """As many digits as the largest number has, so that chunks are listed in their order."""
    return f"{key}/{number:05d}"
