"""Where traces go: the installation names it, and nobody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator

from podtune.api.base import ApiModel
from podtune.cluster.http_poster import split_address

TRACES_PATH = "/v1/traces"
"""Below the address of a collector, as OTLP/HTTP has it."""
HEADERS_FILE = "headers"
AUTHORITIES_FILE = "ca.crt"


class CollectorError(ValueError):
    """A collector can't be used; the text names the field, the value and the remedy."""


class UnusableHeaders(ValueError):
    """The headers in a Secret can't be read; the text says what to do, and none of them."""


class Collector(ApiModel):
    """A collector that takes OTLP over HTTP.

    Attributes:
        endpoint: Its address, to which `/v1/traces` is added.
        attributes: Attributes of the resource, such as `k8s.cluster.name`, beside our own.
        secrets: Directory with the files `headers` and `ca.crt`, each of which may be missing.
    """

    endpoint: Annotated[str, Field(max_length=2048)]
    attributes: dict[str, str] = Field(default_factory=dict, max_length=32)
    secrets: Path | None = None

    @property
    def url(self) -> str:
        """Where spans are posted."""
        return f"{self.endpoint.rstrip('/')}{TRACES_PATH}"

    @field_validator("endpoint")
    @classmethod
    def _is_an_address(cls, endpoint: str) -> str:
        parts = split_address(endpoint, "http://otel-collector.observability:4318")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError("must have no user, password, query or fragment; put headers into tracing.secret")
        if parts.path.rstrip("/").endswith(TRACES_PATH):
            raise ValueError(f"{endpoint!r} ends with /v1/traces, which is added to it; leave it out")
        return endpoint


def parse_collector(text: str) -> Collector | None:
    """Reads a collector as JSON; None for an empty text.

    Raises:
        CollectorError: It is none, or can't be used.
    """
    if not text:
        return None
    try:
        fields: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise CollectorError(f'is not JSON ({error}); write {{"endpoint": "http://…:4318"}}') from error
    try:
        return Collector.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise CollectorError(f"{path}: {problem}".removeprefix(": ")) from error


def parse_headers(text: str) -> dict[str, str]:
    """Reads headers as OTEL_EXPORTER_OTLP_HEADERS has them: `name=value` with commas between, values percent-encoded.

    Raises:
        UnusableHeaders: It is something else.
    """
    headers = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = entry.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not separator or not name.replace("-", "").replace("_", "").isalnum() or not value.isprintable():
            raise UnusableHeaders("headers must be name=value with commas between, such as api-key=…")
        headers[name] = value
    return headers
