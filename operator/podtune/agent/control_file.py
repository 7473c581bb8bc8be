"""The agent's side of the control file: instructions to the training program."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


class ControlFile:
    """Replaces the file whole whenever an instruction changes. Not thread-safe."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: dict[str, bool] | None = None

    def write(self, wants: Mapping[str, bool]) -> bool:
        """Makes the file say this; returns whether it had to be written.

        Raises:
            OSError: It can't be written; the next call tries again.
        """
        if dict(wants) == self._written:
            return False
        # A new file under a name that nobody can have put a link at, then one rename: never half a file.
        temporary = self._path.with_name(f".{self._path.name}-{os.urandom(8).hex()}")
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(file, "wb") as stream:
                os.fchmod(file, 0o644)
                stream.write(json.dumps(dict(wants)).encode())
            temporary.replace(self._path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self._written = dict(wants)
        return True
