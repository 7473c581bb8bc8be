"""Building images where no registry can be reached: a Debian base made here, and Dockerfiles on top of it."""

from __future__ import annotations

import configparser
import hashlib
import inspect
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType

from e2e.devcluster.building import packages
from e2e.devcluster.building.archives import Archive
from e2e.devcluster.building.packages import program
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from e2e.devcluster.node import network
from e2e.devcluster.processes import follow, run
from e2e.devcluster.progress import Task, screen
from release.dockerfile import select_stages

_SUITE = "bookworm"
_BASE_PACKAGES = ("python3", "python3-venv", "ca-certificates")
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_NOT_CONTENT = {"__pycache__", ".git", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
# Of no use in a container; what Python and pip need stays.
_STRIPPED = (
    "usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bug",
    "usr/share/bash-completion", "usr/share/common-licenses", "usr/lib/x86_64-linux-gnu/gconv", "usr/share/i18n",
    "var/lib/apt/lists", "var/cache/apt", "var/cache/debconf", "var/log", "tmp", "run",
)  # fmt: skip


def base_tag() -> str:
    """Return the tag of the base image, which names what it is made of and how."""
    recipe = " ".join((_SUITE, *_BASE_PACKAGES, *_STRIPPED, inspect.getsource(_make_base)))
    return f"localhost/podtune-base:{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def base_image() -> Archive:
    """Return a small Debian with Python, making it with debootstrap when it is not in the cache."""
    tag = base_tag()
    archive = Archive(tag, tag.rpartition(":")[2])
    if archive.exists:
        return archive
    packages.ensure_images()
    with _store_locked():
        if not archive.exists:
            screen.say(f"making {tag} (once; about 2 min)")
            with screen.task("base image"):
                _make_base(archive)
    return archive


def build_image(
    dockerfile: Path,
    target: str,
    tag: str,
    *,
    build_args: Mapping[str, str] | None = None,
    context: Path | None = None,
    content_paths: Sequence[Path] | None = None,
) -> Archive:
    """Build a target of a Dockerfile, unless nothing that goes into it has changed.

    Args:
        dockerfile: The Dockerfile; it gets the build argument ``BASE_IMAGE``.
        target: Stage to build.
        tag: Name of the image.
        build_args: More build arguments.
        context: Directory it copies from; the Dockerfile's own by default.
        content_paths: What decides whether to build again; by default what the Dockerfile copies for this target.

    Raises:
        ClusterError: It does not build.
    """
    root = (context or dockerfile.parent).absolute()
    text = select_stages(dockerfile.read_text(), target)
    base = base_image()
    arguments = {"BASE_IMAGE": base.tag, **(build_args or {})}
    paths = content_paths if content_paths is not None else copied_paths(text, root)
    recipe = [text, target, tag, base.key, *(f"{k}={v}" for k, v in sorted(arguments.items()))]
    archive = Archive(tag, content_key(recipe, root, paths))
    if not archive.exists:
        packages.ensure_images()
        with _store_locked():
            if not archive.exists:  # whoever held the lock may have built it
                screen.say(f"building {tag}")
                _ensure_base(base)
                _build(archive, dockerfile, target, arguments, root, has_apt="apt-get" in text)
    archive.make_current()
    return archive


def _build(
    archive: Archive, dockerfile: Path, target: str, arguments: Mapping[str, str], context: Path, *, has_apt: bool
) -> None:
    words = ["bud", "--layers", "--target", target]
    words += [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    words += ["--tag", archive.tag]
    with _apt_configuration() if has_apt else nullcontext[dict[Path, Path]]({}) as apt:
        _run_build(words, dockerfile, context, archive.path.with_name("build.log"), apt)
    _export(archive.tag, archive)


def build_as_told(words: Sequence[str], tag: str, dockerfile: Path, saved: Path) -> None:
    """Build an image on top of the base image whatever is in the cache, and save it there as a docker-archive file.

    Args:
        words: What buildah is told, but for what has it find packages on this machine.
        tag: Name that they give to the image.
        dockerfile: The Dockerfile; it copies from its directory.
        saved: The file to make.

    Raises:
        ClusterError: It does not build.
    """
    base = base_image()
    packages.ensure_images()
    with _store_locked():
        _ensure_base(base)
        _run_build(words, dockerfile, dockerfile.parent, saved.with_suffix(".log"))
        _buildah("push", "--quiet", tag, f"docker-archive:{saved}:{tag}")
        _buildah("rmi", tag)


def _run_build(
    words: Sequence[str],
    dockerfile: Path,
    context: Path,
    log: Path,
    mounted: Mapping[Path, Path] = MappingProxyType({}),
) -> None:
    tag = words[words.index("--tag") + 1]
    with screen.task(short_name(tag)) as task, _pip_configuration() as pip:
        here = ["--isolation", "chroot", "--network", "host"]
        for outside, there in {**pip, **mounted, _CERTIFICATES: _CERTIFICATES}.items():
            if outside.exists():
                here += ["--volume", f"{outside}:{there}:ro"]
        command, environment = _buildah_command(*words, *here, "--file", str(dockerfile.absolute()), str(context))
        follow(command, log, lambda line: heed_build(task, line), timeout=1800, environment=environment)


def _ensure_base(base: Archive) -> None:
    if not _buildah_has(base.tag):
        _buildah("pull", "--quiet", f"docker-archive:{base.path}")


def short_name(tag: str) -> str:
    """Return an image's name without registry and version."""
    return tag.rpartition("/")[2].partition(":")[0]


def heed_build(task: Task, line: str) -> None:
    """Take in a line of what buildah prints: at which instruction of the Dockerfile it is."""
    found = re.match(r"(?:\[(\d+)/\d+\] )?STEP (\d+)/(\d+): (\w+)", line)
    if found:
        stage, step, steps, instruction = found.groups()
        task.detail = f"stage {stage or 1}, step {step} of {steps} ({instruction})"


def copied_paths(dockerfile: str, context: Path) -> list[Path]:
    """Return what a Dockerfile copies from its context."""
    found: list[Path] = []
    for line in dockerfile.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True) if re.match(r"\s*(COPY|ADD)\s", line, re.IGNORECASE) else []
        if any(word.startswith("--from=") for word in words):
            continue
        for source in [word for word in words[1:] if not word.startswith("--")][:-1]:
            pattern = source.strip("/") or "."
            found += sorted(context.glob(pattern)) if pattern != "." else [context]
    return list(dict.fromkeys(found))


def content_key(recipe: Iterable[str], context: Path, paths: Iterable[Path]) -> str:
    """Return a digest of everything that goes into an image.

    Args:
        recipe: Texts: Dockerfile, arguments.
        context: What paths are relative to.
        paths: Files and directories; ``__pycache__`` and the like do not count.
    """
    digest = hashlib.sha256()
    for text in recipe:
        digest.update(f"{len(text)}:{text}".encode())
    for path in sorted({file for given in paths for file in _files(context / given)}):
        content = path.read_bytes()
        executable = os.access(path, os.X_OK)
        digest.update(f"{path.relative_to(context)}:{executable}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def debian_mirror(sources: str) -> str:
    """Return the mirror that apt's sources name for Debian itself, in either of their two formats.

    Args:
        sources: Content of all sources files.

    Raises:
        ClusterError: They name none.
    """
    for line in sources.splitlines():
        found = re.match(r"\s*(?:URIs:\s*|deb\s+(?:\[[^\]]*\]\s+)?)(\S+)", line)
        if found and re.search(r"/debian/?$", found[1]):
            return found[1]
    raise ClusterError("apt's sources on this machine name no mirror of Debian: the base image is made from one")


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if name not in _NOT_CONTENT]
        yield from (Path(directory) / name for name in files if not name.endswith(".pyc"))


def _make_base(archive: Archive) -> None:
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    mirror = debian_mirror("\n".join(path.read_text() for path in files if path.is_file()))
    with tempfile.TemporaryDirectory(dir=cache_directory()) as scratch:
        root = Path(scratch) / "root"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(_BASE_PACKAGES)}"]
        command += [f"--keyring={_KEYRING}"] if _KEYRING.exists() else []
        run([*network.outside_command(), *command, _SUITE, root, mirror], timeout=900)
        for name in _STRIPPED:
            shutil.rmtree(root / name, ignore_errors=True)
        for name, mode in (("tmp", 0o1777), ("run", 0o755), ("var/log", 0o755), ("var/lib/apt/lists", 0o755)):
            (root / name).mkdir()
            (root / name).chmod(mode)
        # The machine's mirror is no part of the image; python:slim, which stands in elsewhere, has `python`.
        (root / "etc/apt/sources.list").write_text("")
        (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        container = _buildah("from", "scratch").strip()
        try:
            _buildah("add", "--quiet", container, str(root), "/")
            _buildah("config", "--cmd", "python3", "--env", "PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
                     "--env", "LANG=C.UTF-8", container)  # fmt: skip
            _buildah("commit", "--quiet", container, archive.tag)
        finally:
            _buildah("rm", container)
    _export(archive.tag, archive)


def _export(tag: str, archive: Archive) -> None:
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    work = archive.path.with_suffix(f".{os.getpid()}")
    work.unlink(missing_ok=True)
    _buildah("push", "--quiet", tag, f"docker-archive:{work}:{tag}")
    archive.publish(work)


def _buildah_has(tag: str) -> bool:
    return bool(_buildah("images", "--quiet", "--filter", f"reference={tag}").strip())


def _buildah(*arguments: str) -> str:
    command, environment = _buildah_command(*arguments)
    return run(command, timeout=1800, environment=environment)


def _buildah_command(*arguments: str) -> tuple[list[str], dict[str, str]]:
    store = cache_directory() / "buildah"
    # A store of our own, apart from whatever the machine's user builds.
    options = ["--root", str(store / "root"), "--runroot", str(store / "run"), "--storage-driver", "overlay"]
    command = [*network.outside_command(), program("buildah"), *options, *arguments]
    # It keeps a lock where networks are configured, although we ask for none.
    settings = store / "containers.conf"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[network]\nnetwork_config_dir = "{store}/networks"\n')
    return command, {**os.environ, "BUILDAH_ISOLATION": "chroot", "CONTAINERS_CONF": str(settings)}


@contextmanager
def _pip_configuration() -> Iterator[dict[Path, Path]]:
    """Yield what to mount into a build so that its pip finds packages as this machine's does.

    Mounted, not copied: neither the index nor its credentials get into the image.
    """
    settings: dict[str, str] = {}
    for path in (Path("/etc/pip.conf"), Path.home() / ".pip/pip.conf", Path.home() / ".config/pip/pip.conf",
                 Path(os.environ.get("PIP_CONFIG_FILE", os.devnull))):  # fmt: skip
        parser = configparser.RawConfigParser()
        parser.read(path)
        if parser.has_section("global"):
            settings.update(parser.items("global"))
    for name, value in os.environ.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE":
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    folders = [Path(word) for word in settings.get("find-links", "").split() if word.startswith("/")]
    if "cert" in settings:
        settings["cert"] = str(_CERTIFICATES)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "pip.conf"
        parser = configparser.RawConfigParser()
        parser.read_dict({"global": settings})
        file.touch(mode=0o600)
        with file.open("w") as stream:
            parser.write(stream)
        yield {file: Path("/etc/pip.conf"), **{folder: folder for folder in folders if folder.is_dir()}}


@contextmanager
def _apt_configuration(folder: Path = Path("/etc/apt")) -> Iterator[dict[Path, Path]]:
    """Yield what to mount into a build so that its apt finds packages: the base image names no mirror of Debian.

    Mounted, not copied: this machine's mirror is no part of an image.
    """
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    mirror = debian_mirror("\n".join(path.read_text() for path in files if path.is_file()))
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch) / "sources.list"
        sources.write_text(f"deb {mirror} {_SUITE} main\n")
        sources.chmod(0o644)
        settings = [path for path in (folder / "apt.conf.d", folder / "auth.conf.d") if path.is_dir()]
        yield {sources: folder / "sources.list", **{path: path for path in settings}}


def _store_locked() -> AbstractContextManager[None]:
    return locked(cache_directory() / "buildah.lock", "building an image")


def parse_build_arguments(pairs: Iterable[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` pairs as a mapping.

    Raises:
        ClusterError: One is not a pair.
    """
    parsed = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise ClusterError(f"{pair!r} is not KEY=VALUE")
        parsed[key] = value
    return parsed
