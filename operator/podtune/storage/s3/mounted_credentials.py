"""Credentials from a mounted Secret, read for every request (see `podtune.storage.mounted_secret`)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from botocore.credentials import CredentialProvider, Credentials, ReadOnlyCredentials

from podtune.protocol.store_secret import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN
from podtune.storage.errors import InvalidCredentials
from podtune.storage.mounted_secret import read_secret


class MountedCredentials(Credentials):
    """Credentials as the AWS SDK wants them: it asks for them before it signs a request.

    Those that were read last are used on while the Secret is gone: they may be good still.
    """

    def __init__(self, directory: Path) -> None:
        """Reads nothing yet; the last name of the directory where the Secret is mounted is the Secret's."""
        super().__init__("", "", method="podtune-secret")
        self._directory = directory
        self._read: ReadOnlyCredentials | None = None
        self._lock = threading.Lock()

    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        """What the Secret holds now.

        Raises:
            InvalidCredentials: It lacks a key, and has lacked it since these credentials were made.
        """
        with self._lock:
            try:
                self._read = _read(self._directory)
            except InvalidCredentials:
                if self._read is None:
                    raise
            return self._read


class MountedSecret(CredentialProvider):
    """The one place where credentials are looked for when a Secret was named: those of the node are not meant then."""

    METHOD = "podtune-secret"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory

    def load(self) -> Any:
        """See `CredentialProvider.load`."""
        return MountedCredentials(self._directory)


def _read(directory: Path) -> ReadOnlyCredentials:
    found = read_secret(directory, (ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN))
    for key in (ACCESS_KEY_ID, SECRET_ACCESS_KEY):
        if not found[key]:
            raise InvalidCredentials(
                f"Secret {directory.name!r} is missing or lacks the key {key}; create it, with {ACCESS_KEY_ID} and "
                f"{SECRET_ACCESS_KEY}, and running agents will read it within two minutes"
            )
    for key, value in found.items():
        if not (value.isascii() and value.isprintable()):
            raise InvalidCredentials(
                f"the key {key} in Secret {directory.name!r} contains characters that are not allowed in a key; "
                "correct it, and running agents will read it within two minutes"
            )
    return ReadOnlyCredentials(found[ACCESS_KEY_ID], found[SECRET_ACCESS_KEY], found[SESSION_TOKEN] or None)
