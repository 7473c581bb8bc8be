"""Pauses, resumes and stops: what a Trial and an Experiment have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from podtune.cli.client.api_client import Api
from podtune.cli.commands import lifecycle
from podtune.client.session import ClusterSession


class Steering:
    """Asks for something to be done about a Trial or an Experiment; each answer says what will happen."""

    def __init__(self, session: ClusterSession, namespace: str, target: str) -> None:
        """Is ready to be asked.

        Args:
            session: The way to the cluster.
            namespace: The target's.
            target: Its kind and name, such as trial/digits-7.
        """
        self._session = session
        self._namespace = namespace
        self._target = target

    def pause(self) -> str:
        """Asks for a pause."""
        return self._ask(lambda api, target: lifecycle.request_pause(api, self._namespace, target))

    def resume(self, values: Sequence[str] = (), policies: Mapping[str, str] | None = None) -> str:
        """Has it go on, a Trial with other values (name=value), an Experiment that has ended by policies."""
        return self._ask(lambda api, target: lifecycle.request_resume(api, self._namespace, target, values, policies))

    def stop(self) -> str:
        """Ends it for good."""
        return self._ask(lifecycle.request_stop)

    def _ask(self, ask: Callable[[Api, lifecycle.Target], str]) -> str:
        return self._session.call(lambda api: ask(api, lifecycle.find_target(api, self._namespace, self._target)))
