"""What ends a command: one line on standard error, and an exit code that scripts can rely on."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from enum import IntEnum

from podtune.kube.errors import ApiRefusal, ResourceNotFound, Unanswered


class ExitStatus(IntEnum):
    """The exit codes of all commands; a code keeps its meaning."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    TIMED_OUT = 3
    UNREACHABLE = 4
    FORBIDDEN = 5
    NOTHING_FOUND = 6
    INTERRUPTED = 130


MEANINGS: Mapping[ExitStatus, str] = {
    ExitStatus.DONE: "Done, or the answer is yes; also where the program that reads the output has read enough.",
    ExitStatus.FAILED: (
        "It can't be done as asked, or the answer is no: an invalid manifest, an experiment that failed, or a resource "
        "that does not exist."
    ),
    ExitStatus.USAGE: "The command line is wrong: an unknown command or option, or a missing argument.",
    ExitStatus.TIMED_OUT: "What was waited for (`--timeout`) has not come in time. It may still come.",
    ExitStatus.UNREACHABLE: "The API server does not answer. Try again later.",
    ExitStatus.FORBIDDEN: "You are not logged in to the API server, or lack a right there.",
    ExitStatus.NOTHING_FOUND: "`detect` has run the script, and it has reported nothing that can be read.",
    ExitStatus.INTERRUPTED: "You have pressed Ctrl+C.",
}
"""What each code means, in the words of the docs."""
_RIGHTS_MISSING = (http.client.UNAUTHORIZED, http.client.FORBIDDEN)


class CliError(Exception):
    """The command can't be carried out; the text is one line that says why and what to do."""


class NoSuchObject(CliError):
    """There is no Experiment or Trial of that name."""


class KubeconfigError(CliError):
    """The kubeconfig is missing, or is not one that we can use."""


class TimeRanOut(CliError):
    """What a command has waited for has not come in time."""


class RightsMissing(CliError):
    """The caller lacks a right that all of a command needs."""


def explain_missing_package(error: ModuleNotFoundError, extras: str) -> CliError:
    """The error of a command that runs an experiment's parts, with what to install: these extras, or `gp` as well."""
    package = (error.name or "").partition(".")[0]
    extras += ",gp" if package in ("scipy", "sklearn") else ""
    return CliError(
        f"the experiment needs the package {package}, which is not installed; pip install 'podtune[{extras}]'"
    )


def explain_error(error: Exception) -> str:
    """What a command says of an error."""
    match error:
        case ResourceNotFound():
            return error.message
        case ApiRefusal():
            remedy = "; log in again" if error.status == http.client.UNAUTHORIZED else ""
            return f"the API server says {error.status}: {error.message}{remedy}"
        case _:
            return str(error)


def choose_exit_code(error: Exception) -> ExitStatus:
    """The exit code of a command that an error has ended."""
    match error:
        case TimeRanOut():
            return ExitStatus.TIMED_OUT
        case Unanswered():
            return ExitStatus.UNREACHABLE
        case RightsMissing():
            return ExitStatus.FORBIDDEN
        case ApiRefusal() if error.status in _RIGHTS_MISSING:
            return ExitStatus.FORBIDDEN
        case _:
            return ExitStatus.FAILED
