"""From what obstore raises to `StoreError`: a sentence with the bucket, the server and the remedy.

obstore has few kinds of errors. What the server has answered stands in their text, and is read out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from obstore.exceptions import BaseError

from podtune.protocol.store_secret import (
    ACCOUNT_KEY,
    CLIENT_ID,
    CLIENT_SECRET,
    SAS_TOKEN,
    SERVICE_ACCOUNT_KEY,
    TENANT_ID,
)
from podtune.storage import errors
from podtune.storage.address import AzureAddress, GcsAddress

CloudAddress = GcsAddress | AzureAddress
KEYS: dict[type[CloudAddress], str] = {
    GcsAddress: f"the key {SERVICE_ACCOUNT_KEY}",
    AzureAddress: f"the key {ACCOUNT_KEY}, {SAS_TOKEN}, or {TENANT_ID}, {CLIENT_ID} and {CLIENT_SECRET}",
}
"""What a Secret has to hold."""
_ROLES: dict[type[CloudAddress], str] = {
    GcsAddress: "allow the service account roles/storage.objectUser on the bucket",
    AzureAddress: "allow the identity the role Storage Blob Data Contributor on the container",
}
_NO_BUCKET = ("NoSuchBucket", "The specified bucket does not exist", "ContainerNotFound", "ContainerBeingDeleted")
_UNKNOWN_CREDENTIALS = (
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "Server failed to authenticate the request",  # Azurite has another code, which at Azure means a firewall
)
_FULL = frozenset({HTTPStatus.INSUFFICIENT_STORAGE})
_LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
"""Azure answers with a conflict where two requests change one object at the same time."""
_OF_CREDENTIALS = re.compile(r"credential|token request|Invalid Access Key|service account|authoriz", re.IGNORECASE)
_STATUS = re.compile(r"status code: (\d{3})[^:\n]*:? ?(.*)", re.DOTALL)
_CODE_AND_MESSAGE = re.compile(r"<Code>(.*?)</Code>.*?<Message>(.*?)</Message>", re.DOTALL)
_QUERY = re.compile(r"(?<=\S)\?\S+=\S*")
_DEBUG = "\n\nDebug source:"
_MOST_SAID = 300


@contextmanager
def translate_cloud_errors(address: CloudAddress, doing: str) -> Iterator[None]:
    """Turns errors of obstore into `StoreError`s."""
    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        raise describe_error(address, doing, error) from None  # its text holds the address with the SAS token


def describe_error(address: CloudAddress, doing: str, error: Exception) -> errors.StoreError:
    """What an error of obstore means."""
    text = _QUERY.sub("", str(error).partition(_DEBUG)[0])
    match = _STATUS.search(text)
    if match is None:
        return _describe_without_answer(address, doing, text)
    status, body = int(match[1]), match[2]
    said = _summarize(status, body)
    if any(code in body for code in _NO_BUCKET):
        return _build_missing_bucket(address)
    if _asks_for_token(text) and status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _LATER:
        return errors.InvalidCredentials(
            f"there is no token for {address.where} while {doing} ({said}); {suggest_remedy(address)}"
        )
    if status == HTTPStatus.UNAUTHORIZED or any(code in body for code in _UNKNOWN_CREDENTIALS):
        return errors.InvalidCredentials(
            f"{address.where} refuses the credentials while {doing} ({said}); {suggest_remedy(address)}"
        )
    if status == HTTPStatus.FORBIDDEN:
        return errors.AccessDenied(f"{address.where} does not allow {doing} ({said}); {_ROLES[type(address)]}")
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
        return errors.NotFound(f"{address.where} has no such object while {doing}")
    if status in _FULL:
        return errors.OutOfSpace(
            f"{address.where} is full while {doing} ({said}); enlarge it, or delete what is not needed"
        )
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _LATER:
        return errors.Unreachable(f"{address.where} is unavailable while {doing} ({said})")
    return errors.RequestRejected(
        f"{address.where} rejects {doing} ({said}); look up this error in the store's documentation"
    )


def suggest_remedy(address: CloudAddress) -> str:
    """What helps against credentials that are refused, or missing."""
    if not address.credentials:
        return "name a Secret in checkpoints.store.credentialsSecret, or give the pod's service account an identity"
    return f"correct {KEYS[type(address)]} in Secret {address.secret!r}; running agents will read it within two minutes"


def _describe_without_answer(address: CloudAddress, doing: str, text: str) -> errors.StoreError:
    """Of an error that no answer to a request has brought."""
    said = text[:_MOST_SAID]
    if "error sending request" in text or "HTTP error" in text:
        if _asks_for_token(text) and not address.credentials:
            return errors.InvalidCredentials(
                f"no credentials for {address.where} while {doing}: {said}; {suggest_remedy(address)}"
            )
        return errors.Unreachable(
            f"{address.where} does not answer while {doing}: {said}; check the endpoint, and that the network lets "
            "requests through"
        )
    if _OF_CREDENTIALS.search(text):
        return errors.InvalidCredentials(
            f"the credentials for {address.where} can't be used while {doing}: {said}; {suggest_remedy(address)}"
        )
    if "range" in text:
        return errors.NotFound(f"{address.where} has no such range while {doing}")
    if "not found" in text:
        return errors.NotFound(f"{address.where} has no such object while {doing}")
    return errors.Unreachable(f"{address.where} gives no proper answer while {doing}: {said}; check the endpoint")


def _summarize(status: int, body: str) -> str:
    """What a server has answered, in a line."""
    match = _CODE_AND_MESSAGE.search(body)
    words = " ".join((f"{match[1]}: {match[2]}" if match else body).split())
    return f"{status} {words[:_MOST_SAID]}" if words else str(status)


def _asks_for_token(text: str) -> bool:
    """Whether it was not the store that was asked, but who issues its tokens."""
    return "token request" in text or "credential error" in text


def _build_missing_bucket(address: CloudAddress) -> errors.BucketNotFound:
    field = "gcs.bucket" if isinstance(address, GcsAddress) else "azure.container"
    return errors.BucketNotFound(f"{address.where} does not exist; create it, or correct checkpoints.store.{field}")
