"""What ends a command: one line on standard error, and an exit code other than 0."""

from __future__ import annotations

import http.client

from podtune.kube.errors import ApiRefusal, ResourceNotFound


class CliError(Exception):
    """The command can't be carried out; the text is one line that says why and what to do."""


class NoSuchObject(CliError):
    """There is no Experiment or Trial of that name."""


class KubeconfigError(CliError):
    """The kubeconfig is missing, or is not one that we can use."""


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
