"""Keeps what was simulated for the next run, as long as nothing that it is made by has changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, wraps
from pathlib import Path

import podtune
from e2e.devcluster.layout import cache_directory
from e2e.devcluster.locks import locked
from podtune.cli.archives.archive import make_archive
from podtune.dashboard.sources import ArchiveSource
from podtune.kube.manifests import Manifest

_MAKERS = ("api", "protocol", "runner", "simulation", "tuning")
_PRODUCT = Path(podtune.__file__).parent
_SIMULATED = ("simulated.py", "training.py")
_LEFT = 8
"""Several checkouts may take turns."""


@dataclass(frozen=True, slots=True)
class MadeExperiment:
    """An Experiment and its Trials, as the API has them."""

    experiment: Manifest
    trials: tuple[Manifest, ...]

    @property
    def name(self) -> str:
        """Name of the Experiment."""
        return str(self.experiment["metadata"]["name"])

    def move(self, namespace: str) -> MadeExperiment:
        """The same in another namespace."""
        experiment, *trials = (
            {**each, "metadata": {**each["metadata"], "namespace": namespace}}
            for each in (self.experiment, *self.trials)
        )
        return MadeExperiment(experiment, tuple(trials))

    def open_source(self) -> ArchiveSource:
        """A source of pages, as if it had been exported."""
        return ArchiveSource(make_archive(self.experiment, list(self.trials), {}), f"archive {self.name}.yaml")


def keep(make: Callable[[], MadeExperiment]) -> Callable[[], MadeExperiment]:
    """Has a maker called once for all processes and runs; of what earlier versions have made, the newest are left."""

    @cache
    @wraps(make)
    def find_or_make() -> MadeExperiment:
        folder = cache_directory() / "experiments"
        file = folder / f"{make.__name__}-{_digest_makers()}.json"
        with locked(folder / f"{make.__name__}.lock", "simulating an experiment"):
            if not file.exists():
                made = make()
                for other in sorted(folder.glob(f"{make.__name__}-*"), key=lambda path: path.stat().st_mtime)[:-_LEFT]:
                    other.unlink()
                part = file.with_suffix(".part")
                part.write_text(json.dumps(asdict(made)), encoding="utf-8")
                part.rename(file)
            body = json.loads(file.read_text(encoding="utf-8"))
        return MadeExperiment(body["experiment"], tuple(body["trials"]))

    return find_or_make


@cache
def _digest_makers() -> str:
    files = [path for folder in _MAKERS for path in (_PRODUCT / folder).rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted([*files, *(Path(__file__).with_name(name) for name in _SIMULATED)]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
