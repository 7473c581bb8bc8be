"""A collector on loopback that reads OTLP with OpenTelemetry's own library, answers as it is told, and can be away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from e2e.chaos.processes.free_ports import free_port


def read_attributes(attributes: Any) -> dict[str, str | int]:
    """Attributes as a mapping."""
    return {entry.key: _read_value(entry) for entry in attributes}


def _read_value(entry: KeyValue) -> str | int:
    kind = entry.value.WhichOneof("value")
    assert kind in ("string_value", "int_value"), kind
    value: str | int = getattr(entry.value, kind)
    return value


@dataclass
class StubCollector:
    """The collector.

    Attributes:
        port: Where it listens while it is up.
        answers: What it answers next, as status and headers; then that it has taken all.
        rejected: How many spans of each request it says that it has not taken.
        requests: Paths and headers of all requests.
        spans: The spans that it has taken, in order, those that came again included.
        resources: Attributes of the resource of each request that it took.
    """

    port: int = field(default_factory=free_port)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    rejected: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    resources: list[dict[str, str | int]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def endpoint(self) -> str:
        """Its address, as the installation names it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def names(self) -> list[str]:
        """The names of the spans that it has taken."""
        return [span.name for span in self.spans]

    @asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """It can be reached while the context lasts."""
        application = web.Application()
        application.router.add_post("/{path:.*}", self._take)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        try:
            yield
        finally:
            await runner.cleanup()

    async def wait_until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Waits for a request after which something holds."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def _take(self, request: web.Request) -> web.Response:
        content = ExportTraceServiceRequest.FromString(await request.read())
        self.requests.append((request.path, dict(request.headers)))
        status, headers = self.answers.pop(0) if self.answers else (200, {})
        answer = ExportTraceServiceResponse()
        if status == 200:
            for of_resource in content.resource_spans:
                self.resources.append(read_attributes(of_resource.resource.attributes))
                self.spans += [span for of_scope in of_resource.scope_spans for span in of_scope.spans]
            if self.rejected:
                answer.partial_success.rejected_spans = self.rejected
                answer.partial_success.error_message = "too old"
        self._changed.set()
        return web.Response(status=status, headers=headers, body=answer.SerializeToString())
