"""Asks the API server whose a token is, and what they may see.

They see what kubectl would list for them: Experiments and Trials of a namespace. Who may get a single Experiment alone,
and list the Trials beside it, sees its pages, but no list.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from podtune.api.names import EXPERIMENT_PLURAL, GROUP, TRIAL_PLURAL
from podtune.cli.client.api_client import Api
from podtune.dashboard.access.review_cache import ReviewCache
from podtune.dashboard.access.viewer import Viewer, read_viewer
from podtune.kube.errors import ApiRefusal
from podtune.kube.manifests import Manifest
from podtune.kube.paths import ACCESS_REVIEWS, TOKEN_REVIEWS

ANSWER_SECONDS = 30.0
"""How long an answer holds. A stream looks again every 15 s, so that who loses a right loses the page within 60 s."""
MOST_VIEWERS = 1_000
MOST_RIGHTS = 20_000
MOST_REVIEWS = 8
"""Reviews under way at a time, of viewers who are known; no viewer can keep others waiting behind more of theirs."""
MOST_ASKED = MOST_RIGHTS // 2
"""Rights of one viewer that wait for their review, at most."""
MOST_STRANGERS = 2
"""Reviews under way at a time, of tokens that the API server has not taken before."""
MOST_WAITING = 64
"""Such tokens that wait for their review, at most: a stranger may come with any number of wrong ones."""


@dataclass(frozen=True, slots=True)
class Right:
    """Something that a viewer may do or not: a verb, on Experiments or Trials unless another group is named.

    Attributes:
        plural: The resource.
        namespace: Where; empty for all namespaces.
        name: On which object; empty for all.
        part: Of which part of it, such as a pod's log; empty for the object itself.
        group: Whose resource it is; empty for the core group.
    """

    verb: str
    plural: str
    namespace: str = ""
    name: str = ""
    part: str = ""
    group: str = GROUP


class TokenRefused(Exception):
    """The API server doesn't take a token."""


class TooManyLogins(Exception):
    """More tokens wait to be looked at than we let wait."""


class TooManyQuestions(Exception):
    """More rights of one viewer wait to be looked at than we let wait."""


@dataclass(eq=False)
class _Queue:
    """The rights of one viewer that are asked for."""

    turn: asyncio.Semaphore
    length: int = 0


class Reviewer:
    """Has tokens and rights reviewed, with the dashboard's own account."""

    def __init__(self, connect: Callable[[], Api], monotonic: Callable[[], float] = time.monotonic) -> None:
        """Asks nothing yet.

        Args:
            connect: Opens the API server; it is called again where the server no longer takes our credentials.
            monotonic: Tells the seconds.
        """
        self._connect = connect
        self._api: Api | None = None
        self._threads = ThreadPoolExecutor(MOST_REVIEWS, thread_name_prefix="review")
        self._login_threads = ThreadPoolExecutor(MOST_STRANGERS, thread_name_prefix="login-review")
        self._viewers: ReviewCache[bytes, Viewer] = ReviewCache(ANSWER_SECONDS, MOST_VIEWERS, monotonic)
        self._rights: ReviewCache[tuple[Viewer, Right], bool] = ReviewCache(ANSWER_SECONDS, MOST_RIGHTS, monotonic)
        self._queues: WeakValueDictionary[Viewer, _Queue] = WeakValueDictionary()
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        self._waiting = 0

    async def identify(self, token: str) -> Viewer:
        """Whose a token is.

        Raises:
            TokenRefused: It is nobody's, or has expired.
            TooManyLogins: Too many wait already.
            ApiError: The API server can't be asked.
        """
        digest = hashlib.sha256(token.encode()).digest()
        return await self._viewers.get(digest, lambda: self._ask_whose(digest, token))

    async def allows(self, viewer: Viewer, right: Right) -> bool:
        """Whether a viewer has a right.

        Raises:
            TooManyQuestions: Too many of theirs wait already.
            ApiError: The API server can't be asked.
        """
        return await self._rights.get((viewer, right), lambda: self._ask_right(viewer, right))

    def close(self) -> None:
        """Asks nothing any more."""
        for threads in (self._threads, self._login_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    def _ask_whose(self, digest: bytes, token: str) -> Awaitable[Viewer]:
        """Begins a review. Who was let in before doesn't queue behind strangers."""
        if digest in self._accepted:
            return self._review_token(digest, token, self._threads)
        if self._waiting >= MOST_WAITING:
            raise TooManyLogins
        self._waiting += 1
        return self._review_stranger(digest, token)

    async def _review_stranger(self, digest: bytes, token: str) -> Viewer:
        try:
            return await self._review_token(digest, token, self._login_threads)
        finally:
            self._waiting -= 1

    async def _review_token(self, digest: bytes, token: str, threads: ThreadPoolExecutor) -> Viewer:
        spec = {"token": token}
        status = await self._review(threads, TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", spec)
        user = status.get("user") or {}
        self._accepted.pop(digest, None)
        if not status.get("authenticated") or not user.get("username"):
            raise TokenRefused
        self._accepted[digest] = None
        if len(self._accepted) > MOST_VIEWERS:
            self._accepted.popitem(last=False)
        return read_viewer(user)

    def _ask_right(self, viewer: Viewer, right: Right) -> Awaitable[bool]:
        queue = self._queues.setdefault(viewer, _Queue(asyncio.Semaphore(MOST_REVIEWS)))
        if queue.length >= MOST_ASKED:
            raise TooManyQuestions
        queue.length += 1
        return self._await_turn(queue, viewer, right)

    async def _await_turn(self, queue: _Queue, viewer: Viewer, right: Right) -> bool:
        try:
            async with queue.turn:
                return await self._review_right(viewer, right)
        finally:
            queue.length -= 1

    async def _review_right(self, viewer: Viewer, right: Right) -> bool:
        attributes = {
            "group": right.group,
            "resource": right.plural,
            "subresource": right.part,
            "verb": right.verb,
            "namespace": right.namespace,
            "name": right.name,
        }
        spec = {
            "user": viewer.name,
            "uid": viewer.uid,
            "groups": list(viewer.groups),
            "extra": {name: list(values) for name, values in viewer.extra},
            "resourceAttributes": {name: value for name, value in attributes.items() if value},
        }
        status = await self._review(
            self._threads, ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return status.get("allowed") is True

    async def _review(
        self, threads: ThreadPoolExecutor, path: str, version: str, kind: str, spec: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        body = {"apiVersion": version, "kind": kind, "spec": spec}
        answer = await asyncio.get_running_loop().run_in_executor(threads, self._create, path, body)
        return answer.get("status") or {}

    def _create(self, path: str, body: Manifest) -> Manifest:
        api = self._api = self._api or self._connect()
        try:
            return api.create(path, body)
        except ApiRefusal as error:
            if error.status != http.client.UNAUTHORIZED:
                raise
            # Our own token has been replaced by a newer one: it is good for an hour.
            api = self._api = self._connect()
            return api.create(path, body)


async def find_namespaces(reviewer: Reviewer, viewer: Viewer, candidates: Collection[str]) -> frozenset[str] | None:
    """Those of some namespaces that a viewer may see; None where they may see all there are."""
    if await _may_list(reviewer, viewer, ""):
        return None
    names = sorted(set(candidates))
    seen = await asyncio.gather(*(_may_list(reviewer, viewer, name) for name in names))
    return frozenset(name for name, is_seen in zip(names, seen, strict=True) if is_seen)


async def may_see(reviewer: Reviewer, viewer: Viewer, namespace: str, experiment: str) -> bool:
    """Whether a viewer may see an Experiment, be it there or not."""
    if await _may_list(reviewer, viewer, namespace):
        return True
    rights = Right("get", EXPERIMENT_PLURAL, namespace, experiment), Right("list", TRIAL_PLURAL, namespace)
    return all(await asyncio.gather(*(reviewer.allows(viewer, right) for right in rights)))


async def _may_list(reviewer: Reviewer, viewer: Viewer, namespace: str) -> bool:
    rights = Right("list", EXPERIMENT_PLURAL, namespace), Right("list", TRIAL_PLURAL, namespace)
    return all(await asyncio.gather(*(reviewer.allows(viewer, right) for right in rights)))
