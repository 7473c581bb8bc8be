"""From what the AWS SDK raises to `StoreError`: a sentence with the bucket, the server and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import urlsplit

from botocore import exceptions as aws
from botocore.parsers import ResponseParserError
from urllib3.exceptions import NameResolutionError

from podtune.protocol.store_secret import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN
from podtune.storage import errors
from podtune.storage.address import S3Address

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
        "SlowDown",
        "ServiceUnavailable",
        "InternalError",
        # Damaged on the way: the next try may be luckier.
        "BadDigest",
        "XAmzContentSHA256Mismatch",
        "IncompleteBody",
    }
)
_CLOCK = "RequestTimeTooSkewed"
_ANOTHER_REGION = frozenset({"PermanentRedirect", "301", "IllegalLocationConstraintException"})
_PERMISSIONS = (
    "s3:ListBucket, s3:GetObject, s3:PutObject, s3:DeleteObject, s3:AbortMultipartUpload and "
    "s3:ListBucketMultipartUploads"
)
_ROLE = "name a Secret in checkpoints.store.credentialsSecret, or give the pod's service account a role"
_ASSUME = "AssumeRoleWithWebIdentity"
"""The request to STS by which the SDK gets the role of a pod's service account, before it asks the store."""
_STS_LATER = frozenset({"IDPCommunicationError", "InternalFailure", "ServiceUnavailable", "Throttling"})
_NOT_THERE = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE})
_RETRIED = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


@contextmanager
def translate_errors(address: S3Address, doing: str) -> Iterator[None]:
    """Turns errors of the AWS SDK into `StoreError`s."""
    try:
        yield
    except aws.ClientError as error:
        refuse = _refuse_role if error.operation_name == _ASSUME else _build_refusal
        raise refuse(address, doing, error) from error
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise errors.InvalidCredentials(
            f"no credentials for {address.where} while {doing}: {error}; {_ROLE}"
        ) from error
    except aws.ParamValidationError as error:
        raise errors.StoreSettingsError(
            f"invalid settings for {address.where} while {doing}: {error}; correct checkpoints.store"
        ) from error
    except (aws.BotoCoreError, ResponseParserError) as error:
        raise errors.Unreachable(f"{address.where} does not answer while {doing}: {_explain_silence(error)}") from error


def _explain_silence(error: Exception) -> str:
    """Why there is no answer, and what helps."""
    if isinstance(error, aws.EndpointConnectionError) and isinstance(error.kwargs.get("error"), NameResolutionError):
        host = urlsplit(str(error.kwargs["endpoint_url"])).hostname
        return f"the name {host} does not resolve; correct checkpoints.store.endpoint, or look at the cluster's DNS"
    return f"{error}; check the endpoint, and that the network lets requests through"


def _suggest_remedy(address: S3Address) -> str:
    """What helps against credentials that are refused."""
    if not address.credentials:
        return _ROLE
    keys = f"{ACCESS_KEY_ID} and {SECRET_ACCESS_KEY} (and {SESSION_TOKEN}, if used)"
    return f"correct the keys {keys} in Secret {address.secret!r}; running agents will read them within two minutes"


def _refuse_role(address: S3Address, doing: str, error: aws.ClientError) -> errors.StoreError:
    code, status, said = _read_answer(error)
    if code in _STS_LATER or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return errors.Unreachable(f"AWS STS is unavailable while {doing} in {address.where} ({code}: {said})")
    return errors.InvalidCredentials(
        f"AWS STS does not give the pod's service account its role, for {doing} in {address.where} ({code}: {said}); "
        "correct the trust policy of the role, or the account's annotation eks.amazonaws.com/role-arn"
    )


def _read_answer(error: aws.ClientError) -> tuple[str, int, str]:
    """Code, status and words of a refusal."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return code, status, str(error.response.get("Error", {}).get("Message", "")) or code


def _build_refusal(address: S3Address, doing: str, error: aws.ClientError) -> errors.StoreError:
    code, status, said = _read_answer(error)
    if code in _CREDENTIALS:
        return errors.InvalidCredentials(
            f"{address.where} refuses the credentials while {doing} ({code}: {said}); {_suggest_remedy(address)}"
        )
    if code == _CLOCK:
        return errors.ClockSkewed(
            f"{address.where} finds that the clock here is wrong while {doing} ({code}: {said}); set up NTP on this "
            "node, or where the store runs"
        )
    if code == "NoSuchBucket":
        return errors.BucketNotFound(f"{address.where} does not exist; create it, or correct checkpoints.store.bucket")
    if status in _NOT_THERE:
        return errors.NotFound(f"{address.where} has no such object while {doing}")
    if code in _ANOTHER_REGION or status == HTTPStatus.MOVED_PERMANENTLY:
        return errors.StoreSettingsError(
            f"{address.where} is in a region other than {address.region!r}; correct checkpoints.store.region"
        )
    broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.NOT_IMPLEMENTED
    if broken or code in _LATER or status in _RETRIED:
        return errors.Unreachable(f"{address.where} is unavailable while {doing} ({code}: {said})")
    if code == "AccessDenied" or status == HTTPStatus.FORBIDDEN:
        return errors.AccessDenied(
            f"{address.where} does not allow {doing} ({code}: {said}); allow the credentials {_PERMISSIONS}"
        )
    return errors.RequestRejected(
        f"{address.where} rejects {doing} ({code}: {said}); look up this error in the store's documentation"
    )
