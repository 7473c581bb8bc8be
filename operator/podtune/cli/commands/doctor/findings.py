"""What `podtune doctor` looks at with, and what it finds."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import StoreOptions
from podtune.kube.errors import ApiRefusal


class Health(StrEnum):
    """What a check has come to."""

    FINE = "ok"
    WRONG = "problem"
    UNKNOWN = "unknown"
    """The caller may not see it, or it can't be seen from here."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One answer of a check.

    Attributes:
        subject: What was looked at, such as `leader`.
        words: What was found; where something is wrong, with the remedy.
    """

    subject: str
    state: Health
    words: str


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at.

    Attributes:
        namespace: Where the Experiments are.
        home: The operator's own namespace.
        experiment: The Experiment whose store is looked at; empty for all of the namespace.
        here: The time on this machine.
        there: The time on the API server; None where it does not say.
    """

    api: Api
    namespace: str
    home: str
    experiment: str
    options: StoreOptions
    here: datetime
    there: datetime | None

    @property
    def now(self) -> datetime:
        """The time that the cluster's own times are compared with."""
        return self.there or self.here


InstallationCheck = Callable[[Patient], Iterator[Diagnosis]]


def run_check(subject: str, check: InstallationCheck, patient: Patient) -> Iterator[Diagnosis]:
    """Runs a check; what the caller may not see is no problem of the installation.

    Raises:
        ApiError: The API server does not answer, or refuses for another reason.
    """
    try:
        yield from check(patient)
    except ApiRefusal as error:
        if error.status != http.client.FORBIDDEN:
            raise
        yield Diagnosis(subject, Health.UNKNOWN, f"you may not look: {error.message}")
