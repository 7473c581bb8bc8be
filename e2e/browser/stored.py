"""A store for the dashboard of a team: what the agents of a trial would have put there, in a folder of this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiohttp import web

from e2e.browser.experiments.simulated import NAMESPACE
from e2e.browser.experiments.training import ImageCurves
from podtune.cli.client.resources import ExperimentView
from podtune.cli.client.store_access import OpenedStore
from podtune.kube.manifests import Manifest
from podtune.protocol.messages import Result, encode_result
from podtune.storage.address import FileAddress, S3Address
from podtune.storage.checkpoint.address import CheckpointAddress, TrialAddress
from podtune.storage.checkpoint.manifest import CheckpointManifest, ManifestFile, digest_of
from podtune.storage.segments.segment import LOG_STREAM, RESULT_STREAM, SegmentHeader
from podtune.storage.segments.segment_stream import SegmentStream
from podtune.storage.stores import make_store
from podtune.trial.layout import TIME_TOTAL

_ADDRESS = S3Address("models", NAMESPACE)
"""What experiments name: pages show it."""
_CURVES = ImageCurves(81, 90)
"""Those of the running experiment."""
_KEPT = 1 << 30


class StoreFolder:
    """Shows it to everybody who may see the experiment."""

    def __init__(self, directory: Path, experiment: Manifest) -> None:
        """Has nothing in it yet."""
        self._store = make_store(FileAddress(str(directory), NAMESPACE))
        self._experiment = experiment["metadata"]

    def find_obstacle(self, experiment: ExperimentView) -> str:
        """See `StoreAccess`."""
        return "" if experiment.spec.get("checkpoints") else f"{experiment.name} has no checkpoints.store"

    @contextmanager
    def open(self, request: web.Request, experiment: ExperimentView) -> Iterator[OpenedStore]:
        """See `StoreAccess`."""
        yield OpenedStore(self._store, _ADDRESS)

    def store_results(self, trial: Manifest) -> None:
        """Has each iteration's result of an attempt."""
        curve = _CURVES.build_curve(trial["spec"]["parameters"], trial["spec"]["index"])
        stream = self._open_stream(trial, RESULT_STREAM)
        for step in range(1, trial["status"]["iteration"] + 1):
            seconds = step * curve.compute_seconds(step)
            metrics = {**curve.compute_metrics(step), TIME_TOTAL: seconds}
            stream.append(step, seconds, f"{encode_result(Result(step, seconds, metrics, step))}\n".encode())
        stream.store_changes(lambda: False)

    def store_log(self, trial: Manifest, lines: Sequence[str]) -> None:
        """Has what the same attempt has printed."""
        stream = self._open_stream(trial, LOG_STREAM)
        for number, line in enumerate(lines, start=1):
            stream.append(number, float(number), f"2026-03-01T00:13:31Z {line}\n".encode())
        stream.store_changes(lambda: False)

    def store_checkpoints(self, trial: Manifest) -> list[Manifest]:
        """Has the manifests of a trial's checkpoints, of which each holds what the one before has brought; returns
        them as its status has them."""
        name, kept, data = trial["metadata"]["name"], [], ""
        for number, each in enumerate(trial["status"]["checkpoints"]):
            place = self._locate(name).checkpoint(f"{name}-1", str(each["step"]))
            data = data or f"{place.root.removeprefix(place.trial_prefix)}/data/weights.pt"
            files = (
                ManifestFile("optimizer.pt", (180 << 20) + 4096 * number, _hash(f"optimizer {number}")),
                ManifestFile("weights.pt", 94_371_840, _hash("weights"), object=data),
            )
            kept.append(self._store_checkpoint(place, each, files))
        return kept

    def _open_stream(self, trial: Manifest, kind: str) -> SegmentStream:
        name = trial["metadata"]["name"]
        header = SegmentHeader(self._experiment["namespace"], self._experiment["name"], name, f"{name}-1", 1)
        return SegmentStream(self._store, self._locate(name).segments(f"{name}-1", kind, 0), header, _KEPT, kind)

    def _store_checkpoint(
        self, place: CheckpointAddress, checkpoint: Manifest, files: Sequence[ManifestFile]
    ) -> Manifest:
        step, metric = checkpoint["step"], checkpoint["metric"]
        created = f"2026-03-01T02:{step - 30}:00Z"
        manifest = CheckpointManifest(place.root, step, step, metric, created, tuple(files)).to_bytes()
        self._store.put_bytes(place.manifest, manifest)
        return {"step": step, "uri": place.uri, "digest": digest_of(manifest), "metric": metric}

    def _locate(self, trial: str) -> TrialAddress:
        return TrialAddress(_ADDRESS, self._experiment["uid"], trial)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
