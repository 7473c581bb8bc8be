"""Image archives in the cache: finding them by tag and content, and writing those of one layer by ourselves."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory

_KEPT_VERSIONS = 3
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Archive:
    """A version of an image as a docker-archive file; the key tells versions apart by what went into them."""

    tag: str
    key: str

    @property
    def path(self) -> Path:
        """Where the file is, or will be."""
        return _directory(self.tag) / f"{self.key}.tar"

    @property
    def exists(self) -> bool:
        """Whether this version has been built."""
        return self.path.exists()

    def image_id(self) -> str:
        """Return the id that runtimes give to the image: the digest of its configuration."""
        with tarfile.open(self.path) as tar:
            manifest = tar.extractfile("manifest.json")
            if manifest is None:
                raise ClusterError(f"{self.path} is not an image archive")
            name: str = json.load(manifest)[0]["Config"]
        return f"sha256:{name.removesuffix('.json')}"

    def publish(self, built: Path) -> None:
        """Take over a finished file as this version, and make it the tag's current one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        built.rename(self.path)
        self.make_current()

    def make_current(self) -> None:
        """Let the tag name this version, and remove versions long superseded."""
        pointer = _directory(self.tag) / "current"
        fresh = pointer.with_name(f"current-{os.getpid()}")
        fresh.write_text(self.key)
        fresh.rename(pointer)
        os.utime(self.path)
        versions = sorted(_directory(self.tag).glob("*.tar"), key=lambda path: path.stat().st_mtime)
        for path in versions[:-_KEPT_VERSIONS]:
            path.unlink(missing_ok=True)


def current(tag: str) -> Archive:
    """Return the version a tag names.

    Raises:
        ClusterError: It was never built.
    """
    pointer = _directory(tag) / "current"
    if not pointer.exists():
        raise ClusterError(f"no image {tag} has been built; see `python -m e2e.devcluster build-image --help`")
    archive = Archive(tag, pointer.read_text())
    if not archive.exists:
        raise ClusterError(f"the archive of {tag} is gone from the cache: build it again")
    return archive


def _directory(tag: str) -> Path:
    return cache_directory() / "images" / re.sub(r"[^A-Za-z0-9._-]+", "_", tag)


@dataclass(frozen=True)
class File:
    """A file of a one-layer image: a copy of one here, a text, a symbolic link or a directory."""

    path: str
    source: Path | None = None
    text: str = ""
    link: str = ""
    directory: bool = False
    mode: int = 0o755

    def content(self) -> bytes:
        """Return the bytes of the file."""
        return self.source.read_bytes() if self.source else self.text.encode()


def ensure_one_layer(tag: str, files: Sequence[File], config: Mapping[str, object]) -> Archive:
    """Return an image made of a handful of files, writing it when it is not there in this version.

    Args:
        tag: Name of the image.
        files: Its content, parents before children.
        config: What to run, in the image specification's terms (``Entrypoint``, ``Env``, …).
    """
    layer = _layer(files)
    key = hashlib.sha256(layer + json.dumps([tag, dict(config)], sort_keys=True).encode()).hexdigest()[:16]
    archive = Archive(tag, key)
    if archive.exists:
        archive.make_current()
        return archive
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    work = archive.path.with_suffix(f".{os.getpid()}")
    digest = hashlib.sha256(layer).hexdigest()
    image = json.dumps({
        "architecture": _ARCHITECTURES[platform.machine()], "os": "linux", "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}, "history": [{"created_by": "e2e.devcluster"}],
    }).encode()  # fmt: skip
    config_name = f"{hashlib.sha256(image).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [tag], "Layers": [f"{digest}/layer.tar"]}]).encode()
    with tarfile.open(work, "w") as tar:
        for name, content in ((config_name, image), (f"{digest}/layer.tar", layer), ("manifest.json", manifest)):
            _add(tar, tarfile.TarInfo(name), content)
    archive.publish(work)
    return archive


def _layer(files: Sequence[File]) -> bytes:
    """Return the files as a tar, byte by byte the same for the same content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for file in files:
            info = tarfile.TarInfo(file.path.lstrip("/"))
            info.mode = file.mode
            if file.directory:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif file.link:
                info.type = tarfile.SYMTYPE
                info.linkname = file.link
                tar.addfile(info)
            else:
                _add(tar, info, file.content())
    return stream.getvalue()


def _add(tar: tarfile.TarFile, info: tarfile.TarInfo, content: bytes) -> None:
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
