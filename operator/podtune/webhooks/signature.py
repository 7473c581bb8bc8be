"""Signs requests, so that a receiver can tell them from a stranger's: symmetric signatures of Standard Webhooks."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

SECRET_PREFIX = "whsec_"


class UnusableKey(ValueError):
    """A signing key can't be read; the text says what to do."""


def decode_key(text: str) -> bytes:
    """Reads a signing key, `whsec_` and base64.

    Raises:
        UnusableKey: It is none.
    """
    try:
        key = base64.b64decode(text.strip().removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise UnusableKey(
            f"signingKey is not base64 ({error}); write whsec_ and, in base64, 24 to 64 random bytes"
        ) from error
    if not key:
        raise UnusableKey("signingKey is empty; write whsec_ and, in base64, 24 to 64 random bytes")
    return key


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """The value of the header `webhook-signature`."""
    signed = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(signed.digest()).decode()}"
