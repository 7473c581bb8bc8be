"""How a run begins: a new one from a manifest, or one that goes on where it was left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from podtune.api.pods.gpus import leave_out_gpus
from podtune.cli.errors import CliError
from podtune.local.adaptation import adapt, find_missing_variables, list_templates
from podtune.local.containers import find_engine
from podtune.local.devices import DevicePool, count_cpus, find_gpus, read_request
from podtune.local.directory import RunDirectory, RunSettings
from podtune.local.local_run import LocalRun
from podtune.local.objects import make_experiment
from podtune.local.program import find_training_container
from podtune.local.volumes import ConfigMaps, write_config_maps

_RUNS = Path("podtune-runs")
_NONE: ConfigMaps = {}
_LOCK_PATIENCE = 10.0
"""Seconds that may pass from a crash until nothing of the crashed process holds the directory any more."""


def start_run(
    name: str,
    resource: Mapping[str, Any],
    *,
    environ: Mapping[str, str],
    command: Sequence[str] = (),
    directory: Path | None = None,
    workdir: Path | None = None,
    gpus: int | None = None,
    config_maps: ConfigMaps = _NONE,
    engine: str = "",
    overwrite: bool = False,
) -> tuple[LocalRun, tuple[str, ...]]:
    """Makes a run, once it is clear that it can be had.

    Args:
        name: Name of the Experiment.
        resource: The Experiment, as it is written; it is right by itself.
        environ: What programs inherit.
        command: What to run in the place of the container's command.
        directory: Where all of the run is kept; podtune-runs/NAME by default.
        workdir: Where programs run; the current directory by default.
        gpus: How many GPUs to deal out; those that are found by default.
        config_maps: What travels with the Experiment.
        engine: Whose containers programs run in; empty for none. They see `workdir` where it is given.
        overwrite: Whether to delete what an earlier run has left in the directory.

    Returns:
        The run, and what is passed over, a sentence each.

    Raises:
        CliError: It can't be had; nothing was made or started.
    """
    programs = (workdir or Path()).resolve()
    if not programs.is_dir():
        raise CliError(f"--workdir {workdir}: it is no directory; name the one that the program is in")
    adapted = adapt(resource, command, environ, config_maps, in_containers=bool(engine))
    body = make_experiment(adapted.resource, name)
    names = _list_gpus(gpus, environ)
    notes = (*adapted.notes, *_check_gpus(body, names))
    templates = [template for _, template in list_templates(body["spec"])]
    if names is None:
        # Nobody would hold them: tables and pages must not count any.
        for template in templates:
            leave_out_gpus(template["spec"])
    if engine:
        found = find_engine(engine, environ)
        for image in dict.fromkeys(str(find_training_container(template)["image"]) for template in templates):
            found.fetch_image(image)
    place = RunDirectory((directory or _RUNS / name).resolve())
    settings = RunSettings(str(programs), gpus, engine, mounts_workdir=workdir is not None)
    place.create(settings, overwrite=overwrite)
    for template in templates:
        write_config_maps(template["spec"], config_maps, place.volumes)
    place.write_experiment(body)
    return LocalRun(place, settings, DevicePool(names, count_cpus()), environ=environ), notes


def resume_run(path: Path, *, environ: Mapping[str, str], gpus: int | None = None) -> LocalRun:
    """Goes on with a run.

    Args:
        path: Its directory.
        environ: What programs inherit.
        gpus: How many GPUs to deal out; as many as before by default.

    Raises:
        CliError: It can't go on.
    """
    place = RunDirectory(path.resolve())
    known = place.read_settings()
    place.lock(_LOCK_PATIENCE)
    if problems := find_missing_variables(place.read_experiment(), environ):
        raise CliError("\n  ".join((f"{path} can't go on:", *problems)))
    settings = replace(known, gpus=known.gpus if gpus is None else gpus)
    return LocalRun(place, settings, DevicePool(_list_gpus(settings.gpus, environ), count_cpus()), environ=environ)


def _check_gpus(body: Mapping[str, Any], names: Sequence[str] | None) -> list[str]:
    """Refuses what asks for more GPUs than there are, as long as there are some."""
    wanted = read_request(body["spec"]["trialTemplate"]["spec"]).gpus
    if names is None and wanted:
        return [f"no GPU is found here (nvidia-smi); trials run without the {wanted} that each asks for"]
    if names is not None and wanted > len(names):
        raise CliError(
            f"spec.trialTemplate.spec: a trial asks for {wanted} GPUs, this machine has {len(names)}; lower "
            "resources.limits, or say with --gpus how many to deal out"
        )
    return []


def _list_gpus(given: int | None, environ: Mapping[str, str]) -> list[str] | None:
    """Names of the GPUs; None where there are none."""
    return (list(find_gpus(environ)) if given is None else list(map(str, range(given)))) or None
