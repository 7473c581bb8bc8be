"""What the executor has written goes into the store at once, and is expected back through the watch."""

from __future__ import annotations

from podtune.api.names import EXPERIMENT_KIND, TRIAL_KIND
from podtune.cluster.client import Manifest
from podtune.controllers.handlers import POD_KIND
from podtune.controllers.store import Store
from podtune.controllers.watch_health import WatchHealth


class EchoingObserver:
    """The executor's observer."""

    def __init__(self, store: Store, health: WatchHealth) -> None:
        self._store = store
        self._health = health

    def experiment(self, body: Manifest) -> None:
        """See `Observer.experiment`."""
        self._health.wrote(EXPERIMENT_KIND, body)
        self._store.experiment(body)

    def trial(self, body: Manifest) -> None:
        """See `Observer.trial`."""
        self._health.wrote(TRIAL_KIND, body)
        self._store.trial(body)

    def pod(self, body: Manifest) -> None:
        """See `Observer.pod`."""
        self._health.wrote(POD_KIND, body)
        self._store.pod(body)
