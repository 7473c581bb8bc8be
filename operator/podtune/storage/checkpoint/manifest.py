"""The manifest of a checkpoint: what belongs to it, and by what it is known to be whole.

It is stored after all the data: where there is no manifest, there is no checkpoint. Its digest stands in the trial's
status, so a manifest in the bucket that is not the one that was committed is known at once.

Version 1 knows files that are objects of their own, hashed whole. In version 2 a file may be hashed in chunks, so that
these can be hashed, sent and fetched side by side, and it may lie in an object of an earlier checkpoint of the trial,
or among others in one object. In version 3 each chunk of it may be an object. A manifest is written in the first
version that can say it. Chunks are called `parts` in it, and their size `partSize`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

VERSIONS = (1, 2, 3)
MAX_MANIFEST_BYTES = 64 << 20
MAX_FILES = 100_000
MAX_CHUNKS = 10_000
"""Of a file; no object of S3 has more."""
MAX_PATH = 512
"""Bytes of a path: a key of S3 holds 1024 together with all that is put before it."""
_MAX_KEY = 1024
_SHA256 = re.compile(r"[0-9a-f]{64}")


class InvalidManifest(ValueError):
    """A text is no manifest, or not the one it should be; the message names the field."""


class UnknownVersion(InvalidManifest):
    """A manifest was written by a newer program."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One file of a checkpoint.

    Attributes:
        path: Relative to the checkpoint's directory, with slashes.
        size: Bytes.
        sha256: Of its content, in hexadecimal; where there are chunks, of their SHA-256s (32 bytes each) one after the
            other.
        chunk_size: Bytes of each chunk but the last; 0 where it is hashed whole.
        chunks: SHA-256 of each chunk, in hexadecimal.
        object: Where it lies, relative to the trial's prefix; empty where that is `data/<path>` of this checkpoint.
        offset: Its first byte in there.
        split: Whether each chunk is an object by itself, below that key.
    """

    path: str
    size: int
    sha256: str
    chunk_size: int = 0
    chunks: tuple[str, ...] = ()
    object: str = ""
    offset: int = 0
    split: bool = False

    @property
    def content(self) -> tuple[int, str]:
        """What two files have in common that hold the same."""
        return self.size, self.sha256

    @property
    def version(self) -> int:
        """The first version of the manifest that can say where it lies."""
        if self.split:
            return 3
        return 2 if self.chunks or self.object else 1

    def count_chunk_bytes(self, number: int) -> int:
        """The size of a chunk, from 0."""
        return min(self.chunk_size, self.size - number * self.chunk_size)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a manifest."""
        body: dict[str, Any] = {"path": self.path, "size": self.size, "sha256": self.sha256}
        if self.chunks:
            body |= {"partSize": self.chunk_size, "parts": list(self.chunks)}
        if self.object:
            body |= {"object": self.object, "offset": self.offset}
        if self.split:
            body["split"] = True
        return body


@dataclass(frozen=True, slots=True)
class CheckpointManifest:
    """A whole checkpoint.

    Attributes:
        attempt: Id of the attempt that took it.
        step: `step` of the result that it was taken with.
        iteration: Iterations of the trial up to it: where counting goes on after a restore.
        metric: Value of the objective's metric with it, written; empty where there is none.
        created: When the program had finished it (RFC 3339, UTC).
        files: Its files, sorted by path.
        time_total: Seconds of training of the trial up to it: where counting goes on after a restore. Manifests of
            earlier releases do not say it, and have 0.
        configuration: Digest of what the trial was trained with up to it; empty where the manifest does not say it, as
            those of earlier releases.
    """

    attempt: str
    step: int
    iteration: int
    metric: str
    created: str
    files: tuple[ManifestFile, ...]
    time_total: float = 0.0
    configuration: str = ""

    @property
    def value(self) -> float | None:
        """`metric` as a number; None where it is none."""
        try:
            return float(self.metric)
        except ValueError:
            return None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """The manifest as it is stored: the same manifest always gives the same bytes."""
        body = {
            "version": max((file.version for file in self.files), default=VERSIONS[0]),
            "attempt": self.attempt,
            "step": self.step,
            "iteration": self.iteration,
            "metric": self.metric,
            "time_total_s": self.time_total,
            "created": self.created,
            "files": [file.to_json() for file in self.files],
            **({"configuration": self.configuration} if self.configuration else {}),
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def digest_of_chunks(chunks: Sequence[str]) -> str:
    """The SHA-256 that stands for a file whose chunks were hashed by themselves."""
    return hashlib.sha256(bytes.fromhex("".join(chunks))).hexdigest()


def digest_of(data: bytes) -> str:
    """`sha256:…` of a stored manifest."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def parse_manifest(data: bytes) -> CheckpointManifest:
    """Reads a manifest. Its paths are safe: each lies below the directory that it is put together with.

    Raises:
        InvalidManifest: It is not one.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidManifest(f"the manifest is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise InvalidManifest("the manifest is not a JSON object")
    version = body.get("version")
    if isinstance(version, int) and version > VERSIONS[-1]:
        raise UnknownVersion(f"the manifest's version is {version}; this program knows 1 to {VERSIONS[-1]}")
    if isinstance(version, bool) or version not in VERSIONS:
        raise InvalidManifest(f"the manifest's version is {version!r}; this program knows 1 to {VERSIONS[-1]}")
    items = body.get("files")
    if not isinstance(items, list) or len(items) > MAX_FILES:
        raise InvalidManifest(f"files is not a list of at most {MAX_FILES}")
    files = tuple(_parse_file(item) for item in items)
    check_paths([file.path for file in files])
    return CheckpointManifest(
        attempt=_read_text(body, "attempt"),
        step=_count(body, "step"),
        iteration=_count(body, "iteration"),
        metric=_read_text(body, "metric"),
        created=_read_text(body, "created"),
        files=files,
        time_total=_read_seconds(body, "time_total_s"),
        configuration=_read_text(body, "configuration") if "configuration" in body else "",
    )


def check_paths(paths: list[str]) -> None:
    """Checks that paths can be the files of one directory.

    Raises:
        InvalidManifest: One leads out of the directory, is there twice, or is also the directory of another.
    """
    seen: set[str] = set()
    for path in paths:
        problem = _find_path_problem(path)
        if problem:
            raise InvalidManifest(f"path {path[:MAX_PATH]!r} {problem}")
        if path in seen:
            raise InvalidManifest(f"path {path!r} is listed twice")
        seen.add(path)
    for path in seen:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in seen:
                raise InvalidManifest(f"path {path!r} lies below a file of the checkpoint")


def _find_path_problem(path: str) -> str | None:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode; rename the file"
    if not 0 < size <= MAX_PATH:
        return f"does not have 1 to {MAX_PATH} bytes; shorten it"
    return _find_segments_problem(path)


def _find_segments_problem(path: str) -> str | None:
    if any(part in ("", ".", "..") for part in path.split("/")):
        return "is not a plain path below the checkpoint's directory"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "holds a control character; rename the file"
    return None


def _parse_file(item: Any) -> ManifestFile:
    if not isinstance(item, dict):
        raise InvalidManifest("an entry of files is not a JSON object")
    path, size, sha256 = _read_text(item, "path"), _count(item, "size"), _check_sha256(item.get("sha256"))
    chunk_size, chunks = _parse_chunks(item, size, sha256) if "parts" in item else (0, ())
    split = item.get("split", False)
    if not isinstance(split, bool) or (split and not chunks):
        raise InvalidManifest("split is not a truth value, or a file without parts is split")
    if "object" not in item:
        return ManifestFile(path, size, sha256, chunk_size, chunks, split=split)
    key = _read_text(item, "object")
    problem = "has too many bytes" if len(key) > _MAX_KEY else _find_segments_problem(key)
    if problem:
        raise InvalidManifest(f"object {key[:MAX_PATH]!r} {problem}")
    return ManifestFile(path, size, sha256, chunk_size, chunks, key, _count(item, "offset"), split)


def _parse_chunks(item: Mapping[str, Any], size: int, sha256: str) -> tuple[int, tuple[str, ...]]:
    chunk_size, chunks = _count(item, "partSize"), item["parts"]
    if not isinstance(chunks, list) or len(chunks) > MAX_CHUNKS:
        raise InvalidManifest(f"parts is not a list of at most {MAX_CHUNKS}")
    digests = tuple(_check_sha256(chunk) for chunk in chunks)
    if not chunk_size or -(-size // chunk_size) != len(digests) or digest_of_chunks(digests) != sha256:
        raise InvalidManifest("partSize, parts, size and sha256 of a file do not go together")
    return chunk_size, digests


def _check_sha256(value: Any) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise InvalidManifest(f"sha256 is {str(value)[:80]!r}, not 64 hexadecimal digits")
    return value


def _read_text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or len(value) > 4096:
        raise InvalidManifest(f"{name} is missing or not a string")
    return value


def _count(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
        raise InvalidManifest(f"{name} is not a whole number from 0")
    return value


def _read_seconds(body: Mapping[str, Any], name: str) -> float:
    value = body.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 60:
        raise InvalidManifest(f"{name} is not a number of seconds from 0")
    return float(value)
