"""How long requests to a store's server may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """What one call does before it says that a server does not answer.

    Attributes:
        connect: Seconds until the server must have taken a connection.
        silence: Seconds that it may say nothing while a request is under way.
        tries: How often a request is sent. Between two of them is a wait with jitter.
    """

    connect: float
    silence: float
    tries: int


OF_PEOPLE = Patience(connect=3, silence=5, tries=2)
"""Of somebody before a page, who sees the outcome and can ask again."""
