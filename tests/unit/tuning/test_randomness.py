from __future__ import annotations

from podtune.tuning.randomness import derived_seed, generator


def test_a_seed_is_the_same_for_ever() -> None:
    """Proposals and brackets of running experiments depend on it."""
    assert derived_seed(7, "proposal", 12) == 1380021511865033162
    assert derived_seed(7, "proposal", 12, bits=32) == derived_seed(7, "proposal", 12) >> 32


def test_each_purpose_has_draws_of_its_own() -> None:
    purposes = [
        (seed, purpose, number) for seed in range(10) for purpose in ("proposal", "bracket") for number in range(50)
    ]
    assert len({generator(*purpose).random() for purpose in purposes}) == len(purposes)
