"""What a restore is given to choose from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that may be restored.

    Attributes:
        uri: Where it is.
        digest: `sha256:…` of the manifest that was committed.
        step: Its step.
    """

    uri: str
    digest: str
    step: int
