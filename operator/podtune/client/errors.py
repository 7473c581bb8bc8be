"""What the Python API raises.

```
PodtuneError
├── InvalidArgument       what was given makes no sense (a ValueError)
│   └── InvalidExperiment an Experiment that can never work
├── NotCreated            the Experiment is not in the cluster yet
├── ObjectNotFound        there is no such Experiment or Trial (a LookupError)
├── AlreadyExists         there is an Experiment of that name already
├── NotPossible           what was asked for does not fit the present state
│   └── NoResult          no trial has reported the objective yet
├── ExperimentFailed      the Experiment has not come to a good end
├── WaitTimeout           it goes on after the time that it was waited for (a TimeoutError)
├── Refused               the API server refuses
├── ConnectionFailed      there is no way to the cluster, or the API server does not answer
├── StoreFailed           the store does not do what is needed
└── MissingPackage        a package is not installed (an ImportError)
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from podtune.cli.errors import CliError, KubeconfigError, NoSuchObject, explain_error
from podtune.kube.errors import ApiError, ApiRefusal, ResourceExists, ResourceNotFound
from podtune.kube.paths import PathError
from podtune.storage.errors import StoreError


class PodtuneError(Exception):
    """What was asked for can't be done; the text says why, and what to do."""


class InvalidArgument(PodtuneError, ValueError):
    """An argument makes no sense; the text names it, its value and the remedy."""


class InvalidExperiment(InvalidArgument):
    """An Experiment that can never work as it is.

    Attributes:
        problems: All that is wrong with it, a sentence each, with field, value and remedy.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)


class NotCreated(PodtuneError):
    """The Experiment is not in the cluster yet: `client.create` puts it there."""


class ObjectNotFound(PodtuneError, LookupError):
    """There is no such Experiment or Trial."""


class AlreadyExists(PodtuneError):
    """There is an Experiment of that name already."""


class NotPossible(PodtuneError):
    """What was asked for does not fit the present state of the Experiment or Trial."""


class NoResult(NotPossible):
    """No trial has reported the objective yet."""


class ExperimentFailed(PodtuneError):
    """The Experiment has failed, waits for a correction, or was deleted."""


class WaitTimeout(PodtuneError, TimeoutError):
    """The Experiment goes on after the time that it was waited for; nothing has happened to it."""


class Refused(PodtuneError):
    """The API server refuses.

    Attributes:
        status: Its HTTP status, such as 403 where a right is missing.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ConnectionFailed(PodtuneError):
    """There is no way to the cluster, or the API server does not answer."""


class StoreFailed(PodtuneError):
    """The store of checkpoints and results can't be read, or what is in it is damaged."""


class MissingPackage(PodtuneError, ImportError):
    """A package is needed that is not installed."""


@contextmanager
def raise_own_errors() -> Iterator[None]:
    """Raises the errors of what lies below as those of this module.

    Raises:
        PodtuneError: Something has gone wrong.
    """
    try:
        yield
    except (CliError, ApiError, PathError, StoreError) as error:
        raise _translate(error) from error


def _translate(error: Exception) -> PodtuneError:
    text = explain_error(error)
    match error:
        case KubeconfigError():
            return ConnectionFailed(text)
        case PathError():
            return InvalidArgument(text)
        case ResourceNotFound() | NoSuchObject():
            return ObjectNotFound(text)
        case ResourceExists():
            return AlreadyExists(text)
        case ApiRefusal():
            return Refused(text, error.status)
        case ApiError():
            return ConnectionFailed(text)
        case StoreError() | CliError(__cause__=StoreError()):
            return StoreFailed(text)
        case _:
            return NotPossible(text)
