from __future__ import annotations

from podtune.tuning.randomness import build_generator, derive_seed, derive_trial_seed


def test_a_seed_is_the_same_for_ever() -> None:
    """Proposals and brackets of running experiments depend on it."""
    assert derive_seed(7, "proposal", 12) == 1380021511865033162
    assert derive_seed(7, "proposal", 12, bits=32) == derive_seed(7, "proposal", 12) >> 32


def test_each_purpose_has_draws_of_its_own() -> None:
    purposes = [
        (seed, purpose, number) for seed in range(10) for purpose in ("proposal", "bracket") for number in range(50)
    ]
    assert len({build_generator(*purpose).random() for purpose in purposes}) == len(purposes)


def test_a_programs_seed_differs_between_repeats_and_experiments_and_fits_everywhere() -> None:
    seeds = [derive_trial_seed(experiment, repeat) for experiment in range(20) for repeat in range(20)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert derive_trial_seed(7, 0) == 247054594, "the same for ever"
