"""What the executor has written goes into the store at once, and is expected back through the watch."""

from __future__ import annotations

from podtune.api.names import EXPERIMENT_KIND, TRIAL_KIND
from podtune.api.resources.experiment import ExperimentStatus
from podtune.api.resources.trial import TrialStatus
from podtune.controllers.store.store import Store
from podtune.controllers.watch.kopf import POD_KIND
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.manifests import Manifest


class StoreUpdater:
    """The executor's observer."""

    def __init__(self, store: Store, health: WatchHealth) -> None:
        self._store = store
        self._health = health

    def observe_experiment(self, body: Manifest) -> None:
        """See `Observer.experiment`."""
        self._health.wrote(EXPERIMENT_KIND, body)
        self._store.observe_experiment(body)

    def observe_trial(self, body: Manifest) -> None:
        """See `Observer.observe_trial`."""
        self._health.wrote(TRIAL_KIND, body)
        self._store.observe_trial(body)

    def observe_experiment_status(self, metadata: Manifest, status: ExperimentStatus) -> None:
        """See `Observer.experiment_status`."""
        self._health.wrote(EXPERIMENT_KIND, {"metadata": metadata})
        self._store.observe_experiment_status(metadata, status)

    def observe_trial_status(self, metadata: Manifest, status: TrialStatus) -> None:
        """See `Observer.trial_status`."""
        self._health.wrote(TRIAL_KIND, {"metadata": metadata})
        self._store.observe_trial_status(metadata, status)

    def observe_pod(self, body: Manifest) -> None:
        """See `Observer.pod`."""
        self._health.wrote(POD_KIND, body)
        self._store.observe_pod(body)
