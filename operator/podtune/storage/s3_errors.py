"""From an answer of S3 to a sentence that names the bucket, the server and the remedy."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from http import HTTPStatus

from podtune.storage import errors
from podtune.storage.address import StoreAddress

_CREDENTIALS = frozenset(
    {
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "XAdminUserNotFound",  # versitygw's word for InvalidAccessKeyId
    }
)
_LATER = frozenset(
    {
        "RequestTimeout",
        "RequestTimeTooSkewed",
        "SlowDown",
        "ServiceUnavailable",
        "InternalError",
        # Damaged on the way: the next try may be luckier.
        "BadDigest",
        "XAmzContentSHA256Mismatch",
        "IncompleteBody",
    }
)
_ANOTHER_REGION = frozenset({"PermanentRedirect", "301", "IllegalLocationConstraintException"})
_PERMISSIONS = (
    "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and "
    "s3:ListBucketMultipartUploads"
)
_RETRIED = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class Refusal(Exception):
    """An answer that is none of the good ones.

    Attributes:
        status: HTTP status.
        code: S3's word for the reason; empty where it has not said.
        said: Its sentence.
    """

    def __init__(self, status: int, code: str, said: str) -> None:
        super().__init__(f"{status} {code}: {said}")
        self.status = status
        self.code = code
        self.said = said

    @classmethod
    def from_answer(cls, status: int, body: bytes) -> Refusal:
        """Reads an answer, which need not be S3's own: there may be a proxy before it."""
        try:
            found = {element.tag.rpartition("}")[2]: element.text or "" for element in ET.fromstring(body).iter()}
        except ET.ParseError:
            found = {}
        return cls(status, found.get("Code", ""), found.get("Message", "")[:500] or body[:200].decode(errors="replace"))

    @property
    def is_worth_repeating(self) -> bool:
        """Whether the same request may succeed a moment later."""
        broken = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR and self.status != HTTPStatus.NOT_IMPLEMENTED
        return broken or self.code in _LATER or self.status in _RETRIED


def refused(address: StoreAddress, doing: str, refusal: Refusal) -> errors.StoreError:
    """What a refusal means.

    Args:
        address: The store, named in the message.
        doing: What was tried, for the message.
        refusal: What it said.
    """
    code, status = refusal.code, refusal.status
    why = f"{code or status}: {refusal.said}"
    if code in _CREDENTIALS:
        return errors.InvalidCredentials(
            f"{address.where} refuses the credentials while {doing} ({why}); correct the keys accessKeyID "
            "and secretAccessKey in the Secret of credentialsSecret"
        )
    if code == "NoSuchBucket":
        return errors.BucketNotFound(f"{address.where} does not exist; create it, or correct checkpoints.store.bucket")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        return errors.NotFound(f"{address.where} does not hold what was asked for while {doing}")
    if code in _ANOTHER_REGION or status == HTTPStatus.MOVED_PERMANENTLY:
        return errors.StoreSettingsError(
            f"{address.where} is in another region than {address.region!r}; correct checkpoints.store.region"
        )
    if refusal.is_worth_repeating:
        return errors.Unreachable(f"{address.where} can't serve at present while {doing} ({why})")
    if code == "AccessDenied" or status == HTTPStatus.FORBIDDEN:
        return errors.AccessDenied(
            f"{address.where} does not allow {doing} ({why}); allow the credentials {_PERMISSIONS}"
        )
    return errors.RequestRejected(f"{address.where} refuses {doing} ({why}); see what it says")


def no_answer(address: StoreAddress, doing: str, error: Exception) -> errors.Unreachable:
    """What it means that no answer came, or only half of one."""
    return errors.Unreachable(
        f"{address.where} does not answer while {doing}: {error or type(error).__name__}; check the endpoint, and that "
        "the network lets the trial's pod reach it"
    )


def no_credentials(address: StoreAddress, doing: str, error: Exception) -> errors.InvalidCredentials:
    """What it means that there are no credentials to be found."""
    return errors.InvalidCredentials(
        f"no credentials for {address.where} while {doing}: {error}; name a Secret in credentialsSecret, or give "
        "the pod's service account a role"
    )
