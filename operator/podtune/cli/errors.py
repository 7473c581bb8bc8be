"""What ends a command: one line on standard error, and an exit code other than 0.

```
CliError
├── KubeconfigError   no way to the cluster is known
├── Unreachable       the API server did not answer
├── AnswerTooLarge    its answer is longer than we read
└── Refused           it answered with an error
    └── NotFound
```
"""

from __future__ import annotations


class CliError(Exception):
    """The command can't be carried out; the text is one line that says why and what to do."""


class KubeconfigError(CliError):
    """The kubeconfig is missing, or is not one that we can use."""


class Unreachable(CliError):
    """The API server did not answer."""


class AnswerTooLarge(CliError):
    """The API server's answer is longer than we read; that of a smaller page may be short enough."""


class Refused(CliError):
    """The API server answered with an error.

    Attributes:
        status: The HTTP status.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NotFound(Refused):
    """There is no such thing."""
