"""Which namespaces have opted in, where the operator serves only those that have.

A namespace opts in by a RoleBinding, and out by its deletion. The operator may read neither RoleBindings nor
namespaces. It asks the API server what it may do itself, as it needs no right for that, in each namespace where it
knows of an Experiment: it sees these everywhere, and has nothing to do elsewhere. So there is one truth, and nobody can
say in a label what no RoleBinding grants.

A namespace that is taken up is like a cluster when the operator starts: all that is there is listed, and only then is
anything decided. One that is given up is forgotten but for its Experiments, whose status says what to do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum, auto

import structlog

from podtune.api.names import EXPERIMENT_KIND
from podtune.cluster.client import ClusterClient
from podtune.controllers.store.store import Store
from podtune.controllers.watch.resync import Resync
from podtune.controllers.watch.watch_health import WatchHealth
from podtune.kube.errors import ApiError
from podtune.kube.paths import SELF_ACCESS_REVIEWS

log = structlog.get_logger(__name__)

UNSERVED_SECONDS = 5.0
"""Seconds until a namespace that is not served is asked about again, lengthened by up to a fifth at random."""
SERVED_SECONDS = 20.0
"""The same for one that is served."""
DENIALS = 2
"""How often in a row it must be denied: an API server that has just started may not know of all RoleBindings yet."""
REVIEW_PAUSE = 0.05
"""Seconds between two reviews, so that a thousand namespaces cost the API server twenty requests a second."""


class WatchForbidden(Exception):
    """The API server refuses a watch."""


class _State(Enum):
    """What is known of a namespace with Experiments; one that was not asked about yet has none."""

    REFUSED = auto()
    TAKING_UP = auto()
    """It has opted in, and what is there is being listed."""
    SERVED = auto()


class NamespaceGate:
    """What is known of each namespace, for those who deal with its objects."""

    def __init__(self, command: str = "") -> None:
        """Makes a gate through which no namespace has come yet.

        Args:
            command: With which a person opts in; the namespace's name follows. Empty: all namespaces are served.
        """
        self._command = command
        self._states: dict[str, _State] = {}

    def list_served(self) -> list[str]:
        """Names of the namespaces that have opted in and are served."""
        return [namespace for namespace, state in self._states.items() if state is _State.SERVED]

    def find_bar(self, namespace: str) -> str | None:
        """Why a namespace's Experiments are not served; empty while that is not known, None where they are."""
        match self._states.get(namespace):
            case _ if not self._command:
                return None
            case _State.SERVED:
                return None
            case _State.REFUSED:
                return (
                    f"namespace {namespace} has not opted in, so nothing is done here; "
                    f"its administrator can run: {self._command} {namespace}"
                )
            case _:
                return ""

    def is_watched(self, kind: str, namespace: str) -> bool:
        """Whether there is a watch for a kind of objects of a namespace."""
        return kind == EXPERIMENT_KIND or self.find_bar(namespace) is None

    def find_state(self, namespace: str) -> _State | None:
        """What is known of a namespace; None before it was asked about."""
        return self._states.get(namespace)

    def set_state(self, namespace: str, state: _State | None) -> None:
        """Takes in what is known; None for a namespace that is nobody's business any more."""
        if state is None:
            self._states.pop(namespace, None)
        else:
            self._states[namespace] = state


class OptIns:
    """Asks about namespaces in turn, takes up those that have opted in, and gives up those that no longer do."""

    def __init__(
        self,
        client: ClusterClient,
        gate: NamespaceGate,
        store: Store,
        resync: Resync,
        health: WatchHealth,
        *,
        monotonic: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """Makes one that knows of no namespace.

        Args:
            client: Asks.
            gate: Is told what is known.
            store: Knows the Experiments, and is told which namespaces are served.
            resync: Lists what there is in a namespace.
            health: Of the watches.
            monotonic: Seconds, for periods.
            rng: Draws the jitter.
        """
        self._client = client
        self._gate = gate
        self._store = store
        self._resync = resync
        self._health = health
        self._monotonic = monotonic
        self._rng = rng
        self._due: dict[str, float] = {}
        self._denials: dict[str, int] = {}
        """How often in a row each was denied."""
        self._called = asyncio.Event()
        self._followers: list[asyncio.Event] = []

    def see(self, namespace: str) -> None:
        """An Experiment of a namespace was seen."""
        if namespace not in self._due:
            self._called.set()

    async def run(self) -> None:
        """Asks for ever."""
        while True:
            self._called.clear()
            for namespace in self._list_due():
                await self._review(namespace)
                await asyncio.sleep(REVIEW_PAUSE)
            try:
                async with asyncio.timeout(self._compute_wait()):
                    await self._called.wait()
            except TimeoutError:
                pass  # one is due

    async def follow(self, watch: Callable[[str], Awaitable[None]]) -> None:
        """Has each namespace watched for as long as it is served; never ends.

        Args:
            watch: Watches one for ever; it raises `WatchForbidden` where it may not.
        """
        changed, watches = asyncio.Event(), dict[str, asyncio.Task[None]]()
        self._followers.append(changed)
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    changed.clear()
                    served = set(self._gate.list_served())
                    for namespace in watches.keys() - served:
                        watches.pop(namespace).cancel()
                    for namespace in sorted(served - watches.keys()):
                        watches[namespace] = group.create_task(self._keep_watching(watch, namespace))
                    await changed.wait()
        finally:
            self._followers.remove(changed)

    async def _keep_watching(self, watch: Callable[[str], Awaitable[None]], namespace: str) -> None:
        """Watches a namespace until it is cancelled, as it is when the next review says that it is not served."""
        while True:
            try:
                await watch(namespace)
            except WatchForbidden as refusal:
                log.info("watch refused", namespace=namespace, message=str(refusal))
                self._due[namespace] = 0.0
                self._called.set()
                await asyncio.sleep(UNSERVED_SECONDS * (1 + 0.2 * self._rng.random()))

    def _list_due(self) -> Iterator[str]:
        for namespace in self._store.list_namespaces() - self._due.keys():
            self._due[namespace] = 0.0
        for namespace in sorted(self._due, key=self._due.__getitem__):
            if self._due[namespace] <= self._monotonic():
                yield namespace

    def _compute_wait(self) -> float | None:
        earliest = min(self._due.values(), default=None)
        return None if earliest is None else max(earliest - self._monotonic(), 0.0)

    async def _review(self, namespace: str) -> None:
        """Asks about a namespace, and takes it up or gives it up accordingly; without an answer, all stays as it is."""
        try:
            is_granted = await self._ask(namespace)
        except ApiError as error:
            log.warning("rights not reviewed", namespace=namespace, message=str(error))
        else:
            denials = self._denials[namespace] = 0 if is_granted else self._denials.get(namespace, 0) + 1
            if denials >= DENIALS:
                self._give_up(namespace)
            elif is_granted and self._gate.find_state(namespace) is not _State.SERVED:
                await self._take_up(namespace)
        self._plan_next(namespace)

    def _plan_next(self, namespace: str) -> None:
        state = self._gate.find_state(namespace)
        is_sure = state is _State.SERVED and not self._denials[namespace]
        period = SERVED_SECONDS if is_sure else UNSERVED_SECONDS
        self._due[namespace] = self._monotonic() + period * (1 + 0.2 * self._rng.random())
        if state is _State.REFUSED and namespace not in self._store.list_namespaces():
            del self._due[namespace], self._denials[namespace]
            self._gate.set_state(namespace, None)

    async def _ask(self, namespace: str) -> bool:
        """Whether we may create pods: only the RoleBinding grants that."""
        asked = {"namespace": namespace, "group": "", "resource": "pods", "verb": "create"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": asked},
        }
        answer = await self._client.request("POST", SELF_ACCESS_REVIEWS, body=review, idempotent=True)
        return bool((answer.get("status") or {}).get("allowed"))

    async def _take_up(self, namespace: str) -> None:
        def finish() -> None:
            self._gate.set_state(namespace, _State.SERVED)
            log.info("namespace taken up", namespace=namespace)

        self._gate.set_state(namespace, _State.TAKING_UP)
        self._health.forget_namespace(namespace)
        try:
            await self._resync.take_up(namespace, finish)
        except ApiError as error:
            log.warning("namespace not taken up", namespace=namespace, message=str(error))
            self._give_up(namespace)
        else:
            self._store.wake_namespace(namespace)
            self._tell_followers()

    def _give_up(self, namespace: str) -> None:
        before = self._gate.find_state(namespace)
        self._gate.set_state(namespace, _State.REFUSED)
        if before is _State.REFUSED:
            return
        if before is not None:
            log.info("namespace given up", namespace=namespace)
            self._store.give_up(namespace)
            self._tell_followers()
        self._store.wake_namespace(namespace)

    def _tell_followers(self) -> None:
        for changed in self._followers:
            changed.set()
