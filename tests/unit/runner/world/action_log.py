"""What a machine has asked for, as scenarios look at it, whoever carries it out."""

from __future__ import annotations

from typing import TypeVar

from podtune.runner.actions import Action, CreatePod, WriteTrialStatus

ActionT = TypeVar("ActionT")


class ActionLog:
    """All actions so far, the oldest first."""

    log: list[Action]

    def actions(self, kind: type[ActionT]) -> list[ActionT]:
        return [action for action in self.log if isinstance(action, kind)]

    def writes_of(self, trial: str) -> list[WriteTrialStatus]:
        return [action for action in self.actions(WriteTrialStatus) if action.name == trial]

    def created_pods(self) -> list[CreatePod]:
        return self.actions(CreatePod)
