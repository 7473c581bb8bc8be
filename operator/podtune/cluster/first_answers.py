"""Pods that are asked for side by side: the answer to the first of them is waited for.

All pods of an experiment are made from one template, so one that the API server refuses for what it is stands for those
that were to be made with it: they are not sent. Where the first is taken, the others follow at once, side by side.
Nothing is remembered: what is asked for later has a first of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from podtune.api.names import ExperimentReason
from podtune.runner.actions import ActionResult

PATIENCE = 5.0
"""So long the first answer is waited for at most."""


class FirstAnswers:
    """The requests that others wait for."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._awaited: dict[Hashable, asyncio.Future[ActionResult | None]] = {}

    async def ask(self, template: Hashable, request: Callable[[], Awaitable[ActionResult]]) -> ActionResult:
        """Asks for a pod, or takes over the refusal of another one that is asked for at present.

        Args:
            template: Tells what the pod is made from.
            request: Asks the API server.
        """
        first = self._awaited.get(template)
        if first is None:
            return await self._ask_first(template, request)
        done, _ = await asyncio.wait([first], timeout=self._patience)
        result = first.result() if done else None
        if result is not None and result.reason is ExperimentReason.POD_REFUSED:
            return result
        return await request()

    async def _ask_first(self, template: Hashable, request: Callable[[], Awaitable[ActionResult]]) -> ActionResult:
        answer = self._awaited[template] = asyncio.get_running_loop().create_future()
        result = None
        try:
            result = await request()
        finally:
            del self._awaited[template]
            answer.set_result(result)
        return result
