"""How servers say no."""

from __future__ import annotations

import json
from collections.abc import Callable

from e2e.chaos.faults.calls import Request

Refuse = Callable[[int, Request], tuple[dict[str, str], bytes]]

_REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    412: "PreconditionFailed",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_S3_CODES = {
    403: "AccessDenied",
    404: "NoSuchKey",
    409: "OperationAborted",
    412: "PreconditionFailed",
    429: "SlowDown",
    500: "InternalError",
    503: "SlowDown",
    504: "GatewayTimeout",
}


def api_status(status: int, request: Request) -> tuple[dict[str, str], bytes]:
    """As the API server does."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS.get(status, "Unknown"),
        "message": f"{request.method} was refused with {status}, as a test of faults has it",
        "code": status,
    }
    headers = {"Content-Type": "application/json"}
    if status == 429:
        headers["Retry-After"] = "1"
    return headers, json.dumps(body).encode()


def operator_status(status: int, request: Request) -> tuple[dict[str, str], bytes]:
    """As the operator, or something before it, does."""
    return ({"Retry-After": "1"} if status in (429, 503) else {}), f"{status}: {request.path}".encode()


def s3_error(status: int, request: Request) -> tuple[dict[str, str], bytes]:
    """As S3 does."""
    code = _S3_CODES.get(status, "InternalError")
    body = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>a fault</Message></Error>'
    return {"Content-Type": "application/xml"}, body.encode()
