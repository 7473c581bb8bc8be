"""What a training program imports to be tuned; it needs nothing but the standard library.

    from podtune import trial

    config = trial.params({"lr": 0.1})
    restored = trial.restored_checkpoint()
    model = load(restored) if restored else build(config)
    for epoch in range(model.epoch + 1, 28):
        accuracy = model.train_one_epoch()
        model.save("checkpoint/")
        trial.report({"epoch": epoch, "accuracy": accuracy}, checkpoint="checkpoint/")
        if trial.should_stop():
            break

Where pods are reused (`trialTemplate.reuse`), the program goes from trial to trial in a loop:

    for this in trial.stream():
        model = build(this.params({"lr": 0.1}))
        this.report({"accuracy": model.train()})

In a pod, a program that is its container's first process and leaves SIGTERM alone ends on it with exit code 143, once
it has called a function of this module; the kernel would have it train on. A handler of its own is left as it is.

Outside of a pod the same program runs alone: parameters come from `PODTUNE_PARAM_<name>` variables and the defaults,
results are printed, checkpoints are not kept. With `PODTUNE_DIR` set to a directory it writes there what it would
write in a pod.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from podtune.trial.sessions import Session, find_session
from podtune.trial.stream import iterate_sessions

__all__ = [
    "CurrentTrial",
    "params",
    "report",
    "restored_checkpoint",
    "seed",
    "should_checkpoint",
    "should_stop",
    "stream",
]

_sessions: list[Session] = []
"""That of the trial under way, once it was asked for."""


def _get_session() -> Session:
    if not _sessions:
        _sessions.append(find_session())
    return _sessions[0]


class CurrentTrial:
    """The trial under way, with the functions of this module as methods."""

    def params(self, defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `podtune.trial.params`."""
        return params(defaults)

    def seed(self, default: int = 0) -> int:
        """See `podtune.trial.seed`."""
        return seed(default)

    def report(
        self, metrics: Mapping[str, Any], checkpoint: str | os.PathLike[str] | None = None, *, done: bool = False
    ) -> None:
        """See `podtune.trial.report`."""
        report(metrics, checkpoint, done=done)

    def restored_checkpoint(self) -> Path | None:
        """See `podtune.trial.restored_checkpoint`."""
        return restored_checkpoint()

    def should_checkpoint(self) -> bool:
        """See `podtune.trial.should_checkpoint`."""
        return should_checkpoint()

    def should_stop(self) -> bool:
        """See `podtune.trial.should_stop`."""
        return should_stop()


def stream() -> Iterator[CurrentTrial]:
    """The trials that this program is to train, one after the other; for a loop that trains one in each turn.

    The next turn says that the program is through with a trial: all is delivered before the next one begins. Leave a
    turn soon where `should_stop()` says so, or the pod is lost to the next trial. An exception that leaves the loop is
    the failure of the trial under way, and of no other. The functions of this module are about that trial, too, and
    the `PODTUNE_…` variables of the environment.

    Where pods are not reused, and outside of a pod, there is one trial.
    """
    for session in iterate_sessions():
        _sessions[:] = [session]
        yield CurrentTrial()


def params(defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The trial's parameters.

    Args:
        defaults: Values of parameters that the trial does not set; all of them when the program runs alone.
    """
    return {**(defaults or {}), **_get_session().params()}


def seed(default: int = 0) -> int:
    """What to seed random draws with, from 0 to 2^31 - 1: the same for all configurations, another for each repeat.

    Args:
        default: The seed when the program runs alone.
    """
    return _get_session().seed(default)


def report(metrics: Mapping[str, Any], checkpoint: str | os.PathLike[str] | None = None, *, done: bool = False) -> None:
    """Hands over one result, such as an epoch's.

    Args:
        metrics: Values by name: numbers (NaN too), texts or booleans. Nested mappings are flattened with `/`, scalars
            of NumPy and the like are taken by their `item()`.
        checkpoint: A directory whose files let the program go on from here. It is copied before this returns, and
            stored from the copy: the directory can be written to again at once.
        done: Whether this is the last result because the program has done all it set out to do. Needed only in
            programs that trap SIGTERM, whose normal end can also mean that their pod was taken away.

    Raises:
        TypeError: A value is not a number, a text or a boolean; the message names its key.
        ValueError: A key is empty, reserved, or there twice once flattened.
        OSError: The result or the checkpoint can't be written.
    """
    _get_session().report(metrics, None if checkpoint is None else Path(checkpoint), done)


def restored_checkpoint() -> Path | None:
    """The directory of the checkpoint to continue from, or None to start from scratch."""
    return _get_session().restored_checkpoint()


def should_checkpoint() -> bool:
    """Whether a checkpoint is wanted soon, as before a pause. Cheap: ask as often as you like."""
    return _get_session().should_checkpoint()


def should_stop() -> bool:
    """Whether the program should end, with a last result if it likes. Cheap: ask as often as you like.

    Its pod is deleted soon in any case; ending by itself is quicker and cleaner.
    """
    return _get_session().should_stop()
