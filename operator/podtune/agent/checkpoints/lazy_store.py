"""Checks early whether checkpoints can be stored, without holding the AWS SDK in memory all the time.

The SDK takes 28 MB, which an agent with nothing to store yet need not hold beside every trial. So until it has
something to store, a short-lived process checks the bucket.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

from podtune.storage import errors
from podtune.storage.address import S3Address, StoreAddress, parse_store_address
from podtune.storage.object_store import ObjectStore
from podtune.storage.s3.store import S3Store
from podtune.storage.stores import make_store

_SECONDS = 120.0
"""The SDK's own tries are over long before."""
_KINDS: dict[str, type[errors.StoreError]] = {
    kind.__name__: kind
    for kind in (
        errors.StoreSettingsError,
        errors.NotFound,
        errors.BucketNotFound,
        errors.AccessDenied,
        errors.InvalidCredentials,
        errors.ClockSkewed,
        errors.Unreachable,
        errors.RequestRejected,
    )
}


class LazyStore(S3Store):
    """A bucket whose SDK is loaded when it is first used; until then another process checks it."""

    def __init__(self, address: S3Address) -> None:
        """See `S3Store`."""
        super().__init__(address)
        self._given = address

    def check(self) -> None:
        """See `ObjectStore.check`."""
        if self.is_in_use:
            super().check()
        else:
            check_elsewhere(self._given)


def make_lazy_store(address: StoreAddress) -> ObjectStore:
    """As `make_store`; a bucket's SDK is put off."""
    return LazyStore(address) if isinstance(address, S3Address) else make_store(address)


def check_elsewhere(address: S3Address) -> None:
    """Checks a bucket in a process of its own.

    Raises:
        StoreError: It can't be used, or could not be checked.
    """
    command = [sys.executable, "-m", "podtune.agent.checkpoints.lazy_store"]
    try:
        done = subprocess.run(
            command, input=json.dumps(asdict(address)), capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        found = json.loads(done.stdout)
        reason, message = str(found["reason"]), str(found["message"])
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        raise errors.Unreachable(f"{address.where} could not be checked: {error}") from error
    if reason:
        raise _KINDS.get(reason, errors.RequestRejected)(message)


def main() -> None:
    """Checks the bucket that standard input describes, and prints what came of it."""
    reason = message = ""
    try:
        make_store(parse_store_address(sys.stdin.read())).check()
    except errors.StoreError as error:
        reason, message = error.reason, str(error)
    print(json.dumps({"reason": reason, "message": message}))


if __name__ == "__main__":
    main()
