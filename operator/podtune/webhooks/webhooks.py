"""All receivers of an installation, told of what the operator sees.

They are told of what the API server has, never of what the operator has merely decided. So an event never has to be
taken back, and the next operator knows of it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from podtune.cluster.client import ClusterClient
from podtune.cluster.record_store import RecordStore
from podtune.runner.records import Experiment, Trial
from podtune.webhooks.delivery import Delivery
from podtune.webhooks.events import Subject
from podtune.webhooks.notices import Notices
from podtune.webhooks.receivers import Receiver
from podtune.webhooks.sender import WebhookSender

log = structlog.get_logger(__name__)


class Webhooks:
    """Passes on to each receiver what is seen."""

    def __init__(
        self,
        receivers: Sequence[Receiver],
        client: ClusterClient,
        *,
        namespace: str,
        prefix: str,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """Makes the deliveries.

        Args:
            receivers: Who hears of what.
            client: Keeps what they have heard.
            namespace: The operator's own namespace.
            prefix: What the names of the ConfigMaps begin with.
            now: The present time, in seconds since the epoch.
            monotonic: A clock for how long something takes.
        """
        self._deliveries = []
        for receiver in receivers:
            store = RecordStore(client, namespace, f"{prefix}-webhook-{receiver.name}")
            notices = Notices(client, store, receiver.name, now)
            self._deliveries.append(Delivery(receiver, WebhookSender(receiver, now), store, notices, monotonic))

    async def load(self) -> None:
        """Reads how far receivers had heard; before anything is observed.

        Raises:
            ApiError: The API server could not be asked.
        """
        for delivery in self._deliveries:
            await delivery.load()

    async def begin(self) -> None:
        """All that there is has been observed."""
        for delivery in self._deliveries:
            await delivery.begin()

    async def run(self) -> None:
        """Delivers until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for delivery in self._deliveries:
                group.create_task(delivery.run())

    async def close(self, within: float) -> None:
        """Keeps how far receivers have heard, if that takes no longer than so many seconds."""
        try:
            async with asyncio.timeout(within), asyncio.TaskGroup() as group:
                for delivery in self._deliveries:
                    group.create_task(delivery.close())
        except TimeoutError:
            log.warning("positions of webhooks not kept in time", seconds=within)

    def observe_experiment(self, experiment: Experiment) -> None:
        """An Experiment was seen."""
        self._observe(Subject(experiment))

    def observe_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial was seen."""
        self._observe(Subject(experiment, trial))

    def forget_experiment(self, experiment: Experiment) -> None:
        """An Experiment was deleted."""
        self._forget(Subject(experiment))

    def forget_trial(self, experiment: Experiment, trial: Trial) -> None:
        """A Trial was deleted."""
        self._forget(Subject(experiment, trial))

    def _observe(self, subject: Subject) -> None:
        experiment = subject.experiment
        told_elsewhere = experiment.importing or experiment.imported > 0
        for delivery in self._deliveries:
            delivery.observe(subject, told_elsewhere=told_elsewhere)

    def _forget(self, subject: Subject) -> None:
        for delivery in self._deliveries:
            delivery.forget(subject)
