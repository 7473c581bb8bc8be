"""An operator may die anywhere: a machine made of the objects alone plans what the one that saw it all would plan."""

from __future__ import annotations

from podtune.runner.actions import EmitEvent, Propose
from tests.unit.runner.world.simulation import Simulation

MAY_REPEAT = (EmitEvent, Propose)
"""What it may do once more: Events are not looked up, and what was proposed ahead of need is asked for again."""


def assert_made_anew_agrees(simulation: Simulation, may_repeat: tuple[type, ...] = MAY_REPEAT) -> None:
    """Wherever the operator comes to rest, neither its machine nor one made anew has anything to add.

    Args:
        simulation: What has run up to any moment; nothing happens in its pods from now on.
        may_repeat: The actions that the machine made anew may ask for all the same.
    """
    simulation.frozen = True
    simulation.run(600.0)
    simulation.run(until=lambda: simulation.is_quiet)
    assert simulation.machine is not None
    later = simulation.now + 1.0
    made_anew = simulation.rebuilt().decide(later).actions
    for action in made_anew:
        if isinstance(action, Propose):
            answers = simulation.answers(action)
            assert answers.items() <= simulation.proposed.items(), "what was proposed comes out otherwise"
    added = [action for action in made_anew if not isinstance(action, may_repeat)]
    assert added == [], f"made anew it adds {added}"
    left = simulation.machine.decide(later).actions
    assert left == (), f"it had not come to rest: {left}"
