"""Reads a long list page by page: what to request next, whoever sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from podtune.kube.errors import AnswerTooLarge

SHRINKING = 8
"""A page that was too long to be read is asked for again with so many times fewer objects."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The question for one page of a list.

    Attributes:
        limit: How many objects it may have.
        params: What the list is about, such as a selector.
        token: Where it begins; empty for the first page.
    """

    limit: int
    params: Mapping[str, str] = field(default_factory=dict)
    token: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the request."""
        return {**self.params, "limit": str(self.limit), **({"continue": self.token} if self.token else {})}

    def follow(self, page: Mapping[str, Any]) -> PageRequest | None:
        """The question for the page after this one; None where there is none."""
        token = (page.get("metadata") or {}).get("continue", "")
        return replace(self, token=token) if token else None

    def shrink(self, error: AnswerTooLarge) -> PageRequest:
        """The question for the same objects in smaller pages.

        Raises:
            AnswerTooLarge: A page has one object already.
        """
        if self.limit == 1:
            raise error
        return replace(self, limit=max(1, self.limit // SHRINKING))
