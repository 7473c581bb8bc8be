"""Starts the programs of pods, as processes or in containers, and finds those that an earlier process has started."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from podtune.kube.manifests import Manifest
from podtune.local.containers import ContainerEngine, ContainerProcess, ContainerSettings, name_container
from podtune.local.devices import VISIBLE_GPUS
from podtune.local.directory import ProcessIdentity, RunDirectory
from podtune.local.processes import AnyProcess, ChildProcess, FoundProcess, find_process
from podtune.local.program import build_program, find_training_container, inherit
from podtune.local.volumes import Mount, find_mounts, replace_paths
from podtune.runner.records import Pod
from podtune.trial import layout

RunningProgram = AnyProcess | ContainerProcess
"""A program that was started."""


@dataclass(frozen=True, slots=True)
class ProgramStarter:
    """What programs need of this machine.

    Attributes:
        directory: The run's.
        workdir: Where processes run.
        host: Name of this machine.
        environ: What they inherit.
        engine: Whose containers they run in; None for none.
        mounts_workdir: Whether those see `workdir`, and run there.
    """

    directory: RunDirectory
    workdir: Path
    host: str
    environ: Mapping[str, str]
    engine: ContainerEngine | None = None
    mounts_workdir: bool = False

    def start(self, pod: Manifest, record: Pod, gpus: Sequence[str], endpoint: str = "") -> RunningProgram:
        """Starts the program of a pod.

        Args:
            pod: The pod's manifest.
            record: The pod.
            gpus: Its GPUs.
            endpoint: Address of its agent's endpoint; empty where it has none.

        Raises:
            OSError: It can't be started.
        """
        name = record.name
        mounts = find_mounts(
            pod, find_training_container(pod), self.directory.volumes, self.directory.find_volumes(name)
        )
        if self.engine is not None:
            return self._start_container(self.engine, pod, record, mounts, gpus)
        shared = self.directory.find_shared(name)
        program = build_program(pod, shared, self.host, self.environ, endpoint)
        copy = f"{layout.DIRECTORY}/{layout.SITE_PACKAGES}"
        mounts = [*mounts, Mount(shared / layout.SITE_PACKAGES, copy, is_read_only=True)]
        words = tuple(replace_paths(word, mounts) for word in (*program.command, *program.arguments))
        own = {key: replace_paths(value, mounts) for key, value in program.variables.items()}
        environment = {**inherit(self.environ), **own}
        if gpus:
            environment[VISIBLE_GPUS] = ",".join(gpus)
        return ChildProcess(_locate(words, environment), environment, self.workdir, self.directory.find_output(name))

    def find(self, record: Pod) -> RunningProgram:
        """The program that an earlier process of ours has started for a pod."""
        self.directory.find_output(record.name).touch()
        known = self.directory.read_process(record.name) or ProcessIdentity(0, "")
        if not known.pid:  # that process was killed before it could write down which one it had started
            known = find_process(f"{layout.ENV_DIRECTORY}={self.directory.find_shared(record.name)}") or known
        client = FoundProcess(known)
        return client if self.engine is None else ContainerProcess(client, self.engine, name_container(record.uid))

    def _start_container(
        self, engine: ContainerEngine, pod: Manifest, record: Pod, mounts: Sequence[Mount], gpus: Sequence[str]
    ) -> RunningProgram:
        container = find_training_container(pod)
        program = build_program(pod, Path(layout.DIRECTORY), self.host, self.environ)
        shared = Mount(self.directory.find_shared(record.name), layout.DIRECTORY, is_read_only=False)
        workdir = str(container.get("workingDir") or "")
        if self.mounts_workdir:
            mounts = [*mounts, Mount(self.workdir, str(self.workdir), is_read_only=False)]
            workdir = workdir or str(self.workdir)
        settings = ContainerSettings(
            name=name_container(record.uid),
            image=str(container["image"]),
            command=program.command,
            arguments=program.arguments,
            environment=program.variables,
            workdir=workdir,
            mounts=[shared, *mounts],
            gpus=gpus,
            limits=(container.get("resources") or {}).get("limits") or {},
        )
        environment = {**self.environ, **program.variables}
        output = self.directory.find_output(record.name)
        client = ChildProcess(engine.build_command(settings), environment, self.workdir, output)
        return ContainerProcess(client, engine, settings.name)


def _locate(command: tuple[str, ...], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command with the path of its program, which is looked for on the program's own PATH."""
    first, *others = command
    if "/" in first:
        return command
    found = shutil.which(first, path=environment.get("PATH"))
    if found is None:
        raise FileNotFoundError(2, "no such file or directory on PATH", first)
    return (found, *others)
