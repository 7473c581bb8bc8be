"""Trials as containers of Docker or Podman: their own image, with the places that a pod would have mounted.

The engine's client runs as the trial's process, in the foreground: it passes SIGTERM on, and has the program's exit
code. The container has a name made of the pod's UID, so it is found again after a crash.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.pods.quantities import parse_quantity
from podtune.cli.errors import CliError
from podtune.local.directory import ProcessIdentity
from podtune.local.processes import AnyProcess
from podtune.local.volumes import Mount
from podtune.runner.attempts.classification import OUT_OF_MEMORY

ENGINES = ("docker", "podman")
_SECONDS = 30.0
"""For a question to the engine."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class ContainerSettings:
    """What a container is made of.

    Attributes:
        name: Its name.
        image: Its image.
        command: Takes the place of the image's entrypoint; empty for that.
        arguments: Take the place of the image's own.
        environment: Its variables.
        workdir: Where the program runs; empty for what the image says.
        mounts: What it sees of this machine.
        gpus: Its GPUs, as the machine counts them.
        limits: `resources.limits`.
    """

    name: str
    image: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    workdir: str
    mounts: Sequence[Mount]
    gpus: Sequence[str]
    limits: Mapping[str, Any]


class ContainerEngine:
    """Docker or Podman."""

    def __init__(self, name: str, path: str, run: Run = subprocess.run) -> None:
        self.name = name
        self._path = path
        self._run = run

    def fetch_image(self, image: str) -> None:
        """Pulls an image, unless it is here.

        Raises:
            CliError: It can't be had.
        """
        if self._ask("image", "inspect", image).returncode == 0:
            return
        pulled = self._run([self._path, "pull", image], capture_output=True, text=True, check=False)
        if pulled.returncode:
            raise CliError(
                f"{self.name} pull {image}: {_read_last_line(pulled.stderr)}; correct the image, or build it"
            )

    def build_command(self, container: ContainerSettings) -> tuple[str, ...]:
        """The command that runs a container; values of its variables are taken from the command's own environment."""
        words = [self._path, "run", "--name", container.name]
        # Files that it leaves are to be the caller's, who deletes them; without root, Podman maps users.
        is_mapped = self.name == "podman" and os.getuid() != 0
        words += ["--userns", "keep-id"] if is_mapped else ["--user", f"{os.getuid()}:{os.getgid()}"]
        for name in container.environment:
            words += ["--env", name]
        for mount in container.mounts:
            words += ["--volume", f"{mount.folder}:{mount.path}{':ro' if mount.is_read_only else ''}"]
        if container.workdir:
            words += ["--workdir", container.workdir]
        words += self._limit(container)
        if container.command:
            words += ["--entrypoint", container.command[0]]
        return (*words, container.image, *container.command[1:], *container.arguments)

    def was_out_of_memory(self, container: str) -> bool:
        """Whether a container that has ended was killed for its memory limit."""
        asked = self._ask("inspect", "--format", "{{.State.OOMKilled}}", container)
        return asked.stdout.strip().lower() == "true"

    def remove(self, container: str) -> None:
        """Ends a container, and forgets it."""
        self._ask("rm", "--force", container)

    def check(self) -> None:
        """Checks that it answers.

        Raises:
            CliError: It doesn't.
        """
        asked = self._ask("ps", "--quiet")
        if asked.returncode:
            raise CliError(
                f"--container {self.name}: {_read_last_line(asked.stderr)}; start it, or leave out --container"
            )

    def _limit(self, container: ContainerSettings) -> list[str]:
        words: list[str] = []
        memory, cpus = (parse_quantity(container.limits.get(name) or 0) for name in ("memory", "cpu"))
        if memory:
            words += ["--memory", str(math.ceil(memory)), "--memory-swap", str(math.ceil(memory))]
        if cpus:
            words += ["--cpus", f"{float(cpus):g}"]
        if container.gpus and self.name == "podman":
            for gpu in container.gpus:
                words += ["--device", f"nvidia.com/gpu={gpu}"]
        elif container.gpus:
            words += ["--gpus", f'"device={",".join(container.gpus)}"']
        return words

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return self._run([self._path, *words], capture_output=True, text=True, check=False, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 1, "", f"no answer within {_SECONDS:g} s")


def find_engine(name: str, environ: Mapping[str, str]) -> ContainerEngine:
    """Finds an engine that answers.

    Raises:
        CliError: There is none of that name, or it doesn't answer.
    """
    if name not in ENGINES:
        raise CliError(f"--container {name}: is no engine that is known; write {' or '.join(ENGINES)}")
    path = shutil.which(name, path=environ.get("PATH"))
    if path is None:
        raise CliError(f"--container {name}: it is not on PATH; install it, or leave out --container")
    engine = ContainerEngine(name, path)
    engine.check()
    return engine


class ContainerProcess:
    """A container, and the engine's client that attends it."""

    def __init__(self, client: AnyProcess, engine: ContainerEngine, name: str) -> None:
        self._client = client
        self._engine = engine
        self._name = name

    @property
    def identity(self) -> ProcessIdentity:
        """The client's."""
        return self._client.identity

    def wait(self, seconds: float) -> bool:
        """Waits up to so many seconds; returns whether the program has ended."""
        return self._client.wait(seconds)

    @property
    def exit_code(self) -> int:
        """The program's exit code, once it has ended."""
        return self._client.exit_code

    @property
    def end_reason(self) -> str:
        """Why it has ended, as a container's status has it."""
        return OUT_OF_MEMORY if self._engine.was_out_of_memory(self._name) else self._client.end_reason

    def terminate(self) -> None:
        """Asks the program to end."""
        self._client.terminate()

    def kill(self) -> None:
        """Ends the program, and all that it has started."""
        self._engine.remove(self._name)
        self._client.kill()


def name_container(uid: str) -> str:
    """The name of a pod's container."""
    return f"podtune-{uid}"


def _read_last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "it says nothing"
