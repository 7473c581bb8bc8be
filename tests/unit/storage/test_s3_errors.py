"""From an answer of S3 to a sentence that helps."""

import pytest
from botocore import exceptions as aws

from podtune.storage import errors
from podtune.storage.address import StoreAddress
from podtune.storage.s3_errors import translated

ADDRESS = StoreAddress("models", endpoint="http://s3:9000")


@pytest.mark.parametrize(
    ("code", "status", "kind", "remedy"),
    [
        ("NoSuchBucket", 404, errors.BucketNotFound, "create it, or correct checkpoints.store.bucket"),
        ("NoSuchKey", 404, errors.NotFound, "does not hold"),
        ("InvalidAccessKeyId", 403, errors.InvalidCredentials, "correct the keys accessKeyID and secretAccessKey"),
        ("SignatureDoesNotMatch", 403, errors.InvalidCredentials, "Secret"),
        ("ExpiredToken", 400, errors.InvalidCredentials, "Secret"),
        ("AccessDenied", 403, errors.AccessDenied, "s3:PutObject"),
        ("PermanentRedirect", 301, errors.StoreSettingsError, "checkpoints.store.region"),
        ("SlowDown", 503, errors.Unreachable, "can't serve at present"),
        ("InternalError", 500, errors.Unreachable, "can't serve at present"),
        ("QuotaExceeded", 400, errors.RequestRejected, "QuotaExceeded"),
    ],
)
def test_a_refusal_becomes_a_sentence_with_bucket_server_and_remedy(code, status, kind, remedy):
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(kind) as caught, translated(ADDRESS, "storing x"):
        raise aws.ClientError(answer, "PutObject")
    assert remedy in str(caught.value)
    assert "'models' at http://s3:9000" in str(caught.value)
    assert caught.value.permanent == (kind is not errors.Unreachable)
    assert caught.value.reason == kind.__name__


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (aws.NoCredentialsError(), errors.InvalidCredentials),
        (aws.EndpointConnectionError(endpoint_url="http://s3:9000"), errors.Unreachable),
        (aws.ReadTimeoutError(endpoint_url="http://s3:9000"), errors.Unreachable),
        (aws.ResponseStreamingError(error="cut"), errors.Unreachable),
        (aws.ParamValidationError(report="bad bucket name"), errors.StoreSettingsError),
    ],
)
def test_no_answer_becomes_one_too(error, kind):
    with pytest.raises(kind, match="'models' at http://s3:9000"), translated(ADDRESS, "storing x"):
        raise error


def test_other_errors_are_left_alone():
    with pytest.raises(RuntimeError), translated(ADDRESS, "storing x"):
        raise RuntimeError
