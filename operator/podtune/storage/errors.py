"""Errors of a store; each message names the bucket, the server and the remedy."""

from __future__ import annotations


class StoreError(Exception):
    """A store can't do what it was asked for.

    Attributes:
        permanent: Whether waiting alone can't mend it: somebody has to change something.
    """

    permanent = True

    @property
    def reason(self) -> str:
        """One CamelCase word, for programs."""
        return type(self).__name__


class StoreSettingsError(StoreError):
    """The store's settings, or an address in it, make no sense."""


class NotFound(StoreError):
    """There is no such object."""


class BucketNotFound(StoreError):
    """There is no such bucket."""


class AccessDenied(StoreError):
    """The credentials are known, but may not do this."""


class InvalidCredentials(StoreError):
    """The credentials are missing, unknown, wrong or expired."""


class RequestRejected(StoreError):
    """The store refused, for a reason of its own."""


class Unreachable(StoreError):
    """The store does not answer, or asks to come again later."""

    permanent = False


class ClockSkewed(Unreachable):
    """The store refuses signed requests of this machine's time; it is asked again, as NTP may correct the clock."""


class OutOfSpace(StoreError):
    """The store is full; it may be enlarged, or somebody may delete something."""

    permanent = False


class TimedOut(StoreError):
    """It exceeded its time limit, or was aborted because no time is left."""

    permanent = False
