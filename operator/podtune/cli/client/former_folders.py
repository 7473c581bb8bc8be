"""Where an Experiment has stored things before it was restored or imported: an annotation lists those folders.

Each time, `make_archive` adds the folder of the Experiment that it reads, and the new Experiment has the annotation
from its creation on. So it comes with the next export or snapshot, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from podtune.api.names import ANNOTATION_FORMER
from podtune.cli.client.resources import ExperimentView
from podtune.cli.errors import CliError
from podtune.storage.address import StoreAddress
from podtune.storage.segments.former import FormerFolder

_ENTRY = re.compile(r"([A-Za-z0-9][A-Za-z0-9-]*)/([a-z0-9][a-z0-9.-]*)")
"""UID and name, without anything that would lead to another folder."""


def add_former_folder(annotations: Mapping[str, str], uid: str, name: str) -> dict[str, str]:
    """Annotations that list the folder of an Experiment, too, if they do not yet; the newest is the last."""
    entry = f"{uid}/{name}"
    entries = [one for one in annotations.get(ANNOTATION_FORMER, "").split(",") if one]
    return {**annotations, ANNOTATION_FORMER: ",".join(entries if entry in entries else [*entries, entry])}


def list_former_folders(experiment: ExperimentView, address: StoreAddress) -> tuple[FormerFolder, ...]:
    """The folders that an Experiment has stored things in before, the oldest first.

    Raises:
        CliError: The annotation is not what `podtune` has written.
    """
    found = []
    for entry in filter(None, experiment.former.split(",")):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise CliError(
                f"experiment {experiment.name}: annotation {ANNOTATION_FORMER} has {entry!r}, which is no <UID>/<name>;"
                " correct or remove it"
            )
        if match[1] != experiment.uid:  # an archive lists the folder of the Experiment that it shows, too
            found.append(FormerFolder(address.experiment_prefix(match[1]), match[2], experiment.name))
    return tuple(found)
