"""The source that shows a cluster: it follows Experiments and Trials by watch, with the viewer's own rights."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import random
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from podtune.api.names import EXPERIMENT_KIND, EXPERIMENT_PLURAL, TRIAL_KIND, TRIAL_PLURAL
from podtune.cli.client.api_client import Api, Change
from podtune.cli.client.resources import NO_DEFINITIONS, ExperimentView, TrialView
from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.live.cluster_state import ClusterState, ObjectKey
from podtune.dashboard.server.logs import get_field_logger
from podtune.dashboard.sources import LiveSource, Outage
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceNotFound

LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach the API server, at most."""
INTERRUPTED = "the connection broke off"
_log = get_field_logger(__name__)


@dataclass(frozen=True, eq=False, slots=True)
class _Sleeper:
    """A page's stream that waits for another revision than it knows."""

    key: ObjectKey
    known: str
    loop: asyncio.AbstractEventLoop
    event: asyncio.Event


class ClusterSource(LiveSource):
    """The Experiments of a namespace or of all. Two threads follow them; what is asked for is answered from memory."""

    def __init__(
        self,
        connect: Callable[[], Api],
        namespace: str | None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
        pause: Callable[[float], object] | None = None,
        *,
        title: str = "",
    ) -> None:
        """Is ready to be started.

        Args:
            connect: Opens the API server; it is called again where the server no longer takes our credentials.
            namespace: The namespace; None for all.
            clock: Tells the time.
            rng: Spreads the pauses between tries.
            pause: Waits for so many seconds; unless it is given, the end of the program cuts it short.
            title: What it reads, in a few words; else the namespace.
        """
        self._connect = connect
        self._namespace = namespace
        self._has_own_title = bool(title)
        self._title = title or ("all namespaces" if namespace is None else f"namespace {namespace}")
        self._clock = clock
        self._rng = rng or random.Random()
        self._state = ClusterState(clock)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._pause = pause or self._stopped.wait
        self._pending = {EXPERIMENT_PLURAL, TRIAL_PLURAL}
        self._known = threading.Event()
        self._refusal: Exception | None = None
        self._outages: dict[str, Outage] = {}
        self._sleepers: set[_Sleeper] = set()
        # Revisions of a program that ran before must not look like ours.
        self._secret = secrets.token_bytes(16)
        self._outage_count = 0

    @property
    def title(self) -> str:
        """What it reads, in a few words."""
        return self._title

    @property
    def has_own_title(self) -> bool:
        """Whether the installation chose the title."""
        return self._has_own_title

    @property
    def outage(self) -> Outage | None:
        """Why what is shown may be old; None while the API server tells us all."""
        with self._lock:
            return min(self._outages.values(), key=lambda outage: outage.since, default=None)

    def list_experiments(self) -> Sequence[ExperimentView]:
        """All Experiments, by namespace and name."""
        with self._lock:
            return self._state.list_experiments()

    def find_experiment(self, namespace: str, name: str) -> ExperimentView | None:
        """One of them."""
        with self._lock:
            return self._state.find_experiment((namespace, name))

    def list_trials(self, namespace: str, experiment: str) -> Sequence[TrialView]:
        """An Experiment's Trials."""
        with self._lock:
            return self._state.list_trials((namespace, experiment))

    def find_deletion(self, namespace: str, experiment: str) -> datetime | None:
        """When an Experiment was deleted that was here."""
        with self._lock:
            return self._state.find_deletion((namespace, experiment))

    def find_revision(self, namespace: str, experiment: str) -> str:
        """Another text as soon as there is news of an Experiment, or without a name of any."""
        with self._lock:
            return self._make_revision((namespace, experiment))

    async def wait_for_news(self, namespace: str, experiment: str, known: str) -> str:
        """Returns the revision as soon as it is another one than is known."""
        key = namespace, experiment
        while True:
            sleeper = _Sleeper(key, known, asyncio.get_running_loop(), asyncio.Event())
            with self._lock:
                revision = self._make_revision(key)
                if revision != known:
                    return revision
                self._sleepers.add(sleeper)
            try:
                await sleeper.event.wait()
            finally:
                with self._lock:
                    self._sleepers.discard(sleeper)

    def start(self) -> None:
        """Returns as soon as all is known that there is.

        Raises:
            CliError: The server knows no Experiments, or they may not be read.
            ApiError: It can't be reached.
        """
        api = self._connect()
        for plural in (EXPERIMENT_PLURAL, TRIAL_PLURAL):
            # They end with the process: a watch that waits for its next line can't be interrupted.
            threading.Thread(target=self._follow, args=(api, plural), daemon=True).start()
        self._known.wait()
        if self._refusal is not None:
            self.stop()
            raise self._explain(self._refusal)

    def stop(self) -> None:
        """Follows no longer."""
        self._stopped.set()

    def _make_revision(self, key: ObjectKey) -> str:
        number = self._state.find_revision(key) if key[1] else self._state.revision
        # The number counts the changes of all experiments, and a viewer of one must not learn how many there are.
        text = f"{key}-{number}-{self._outage_count}"
        return hashlib.blake2b(text.encode(), key=self._secret, digest_size=8).hexdigest()

    def _follow(self, api: Api, plural: str) -> None:
        failures = 0
        make_path = paths.experiments if plural == EXPERIMENT_PLURAL else paths.trials
        while not self._stopped.is_set():
            try:
                for change in api.watch(make_path(self._namespace or ""), None, lambda: not self._stopped.is_set()):
                    if self._stopped.is_set():
                        return
                    failures = 0 if change.kind == "SYNCED" else failures
                    self._apply(plural, change)
            except (ApiError, CliError) as error:
                self._lose(plural, error)
                if isinstance(error, ApiRefusal) and error.status == http.client.UNAUTHORIZED:
                    api = self._renew(api)
            except Exception as error:  # noqa: BLE001 - a thread that ends unseen would leave old pages behind
                _log.exception("watch broke off", kind=EXPERIMENT_KIND if plural == EXPERIMENT_PLURAL else TRIAL_KIND)
                self._lose(plural, error)
            failures += 1
            self._pause(min(2.0**failures, LONGEST_PAUSE) * self._rng.uniform(0.5, 1))

    def _renew(self, api: Api) -> Api:
        """Credentials such as a cloud's are good for minutes, and the kubeconfig says how to get others."""
        try:
            return self._connect()
        except (ApiError, CliError) as error:
            _log.warning("no new credentials", message=explain_error(error))
            return api

    def _apply(self, plural: str, change: Change) -> None:
        with self._lock:
            before = self._state.revision, self._outage_count
            if change.kind == "INTERRUPTED":
                self._note_outage(plural, INTERRUPTED)
            elif change.kind in ("SYNCED", "RESUMED") and plural in self._outages:
                del self._outages[plural]
                self._outage_count += 1
            self._state.apply(plural, change)
            if change.kind == "SYNCED":
                self._pending.discard(plural)
            if not self._pending:
                self._known.set()
            if before != (self._state.revision, self._outage_count):
                self._wake()

    def _lose(self, plural: str, error: Exception) -> None:
        with self._lock:
            if self._pending:  # at the start, somebody is waiting who can do something about it
                self._refusal = self._refusal or error
                self._known.set()
            self._note_outage(plural, explain_error(error))
            self._wake()

    def _note_outage(self, plural: str, reason: str) -> None:
        known = self._outages.get(plural)
        outage = Outage(known.since if known is not None else self._clock(), reason)
        if outage != known:
            self._outages[plural] = outage
            self._outage_count += 1

    def _wake(self) -> None:
        for sleeper in self._sleepers:
            if self._make_revision(sleeper.key) != sleeper.known:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    sleeper.loop.call_soon_threadsafe(sleeper.event.set)

    def _explain(self, error: Exception) -> Exception:
        match error:
            case ResourceNotFound():
                return CliError(NO_DEFINITIONS)
            case ApiRefusal(status=http.client.FORBIDDEN):
                remedy = "; name a namespace with -n" if self._namespace is None else "; the role `view` is enough"
                return CliError(f"{explain_error(error)}{remedy}")
            case _:
                return error
