"""The errors of requests to the API server.

```
ApiError
├── Unanswered            no answer
│   ├── NotSent           there was no connection, or no credentials: it was not carried out
│   └── AnswerTimeout     it was sent, and may have been carried out or not
├── NotLeading            not sent: we may not write any more
├── AnswerTooLarge        an answer that is longer than we read
├── WrongObject           an answer that is another object than was asked for
└── ApiRefusal            an answer with a status of 400 or more
    ├── ResourceNotFound
    ├── ResourceExists    an object of that name is there already
    └── ResourceConflict  the object has changed since it was read, or is another one of that name
```
"""

from __future__ import annotations

_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class ApiError(Exception):
    """A request to the API server did not succeed."""


class Unanswered(ApiError):
    """The API server gave no answer, or not all of it; the request may have been carried out or not."""


class NotSent(Unanswered):
    """There was no connection to the API server, or no credentials for it: the request was not carried out."""


class AnswerTimeout(Unanswered):
    """The API server did not answer in time; the request may have been carried out or not."""


class NotLeading(ApiError):
    """The request would have written something, and another operator may lead by now; it was not sent."""


class AnswerTooLarge(ApiError):
    """The API server's answer is longer than we read; that of a smaller page may be short enough."""


class WrongObject(ApiError):
    """The API server answered with another object than was asked for."""


class ApiRefusal(ApiError):
    """The API server answered with an error; `make_refusal` makes it of the right kind.

    Attributes:
        reason: Kubernetes' own word, such as Conflict or AlreadyExists.
        retry_after: Seconds that it asks us to wait, None where it does not.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return (self.status in _TRANSIENT or self.retry_after is not None) and not self.is_too_large

    @property
    def is_too_large(self) -> bool:
        """Whether the object is larger than the API server takes, or its database, whose words come with a 500."""
        return self.status == 413 or (self.status == 500 and "request is too large" in self.message)

    @property
    def is_about_dry_runs(self) -> bool:
        """Whether an admission webhook was in the way that can't be asked without an effect."""
        return self.status == 400 and "does not support dry run" in self.message

    @property
    def is_lack_of_rights(self) -> bool:
        """Whether we ourselves may not do this: a matter between the operator and its administrator."""
        return self.status == 401 or (self.status == 403 and "cannot " in self.message and "User " in self.message)

    @property
    def is_without_account(self) -> bool:
        """Whether a pod's service account is missing, as it is for a moment in a new namespace."""
        return self.status == 403 and "error looking up service account" in self.message

    @property
    def is_about_new_kind(self) -> bool:
        """Whether OwnerReferencesPermissionEnforcement does not know the owner's kind yet.

        That admission plugin hears of resource definitions half a minute after they were made.
        """
        return self.status == 403 and "cannot find RESTMapping" in self.message

    @property
    def is_about_root(self) -> bool:
        """Whether Pod Security refuses a pod that does not rule out to run as root, whatever else is wrong with it."""
        return self.status == 403 and "violates PodSecurity" in self.message and "runAsNonRoot != true" in self.message

    @property
    def is_namespace_ending(self) -> bool:
        """Whether nothing can be created because the namespace is being deleted."""
        return self.status == 403 and "being terminated" in self.message

    @property
    def is_over_quota(self) -> bool:
        """Whether a ResourceQuota is used up at present."""
        return self.status == 403 and "exceeded quota" in self.message


class ResourceNotFound(ApiRefusal):
    """There is no such object, or no such kind of objects."""


class ResourceExists(ApiRefusal):
    """There is an object of that name already."""


class ResourceConflict(ApiRefusal):
    """The object has changed since it was read, or is another one of that name."""


def make_refusal(status: int, reason: str, message: str, retry_after: float | None = None) -> ApiRefusal:
    """Makes the error for an answer, of the kind given by its status and reason."""
    kind = ApiRefusal
    if status == 404:
        kind = ResourceNotFound
    elif status == 409:
        kind = ResourceExists if reason == "AlreadyExists" else ResourceConflict
    return kind(status, reason, message, retry_after)
