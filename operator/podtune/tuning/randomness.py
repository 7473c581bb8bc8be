"""Randomness that depends only on the experiment's seed and on the purpose of the draw.

There is no single stream of draws: a restarted operator would have to know its position. Instead each purpose has its
own seed, so draws can be made in any order.
"""

from __future__ import annotations

import hashlib
import random


def derive_seed(*path: int | str, bits: int = 64) -> int:
    """The seed that belongs to a purpose: the first bits of the SHA-256 of `path`, joined by slashes.

    Args:
        path: The experiment's seed first, then what the draw is for, such as `7, "proposal", 12`.
        bits: How many bits the seed has; a multiple of 8. NumPy takes 32.
    """
    digest = hashlib.sha256("/".join(map(str, path)).encode()).digest()
    return int.from_bytes(digest[: bits // 8], "big")


def build_generator(*path: int | str) -> random.Random:
    """A generator (Mersenne Twister) seeded by `derive_seed(*path)`."""
    return random.Random(derive_seed(*path))


def derive_proposal_seed(seed: int, number: int, attempt: int = 0, bits: int = 64) -> int:
    """The seed of a searcher's draws for one proposal, after `attempt` answers that could not be used."""
    again = ("attempt", attempt) if attempt else ()
    return derive_seed(seed, "proposal", number, *again, bits=bits)


def derive_trial_seed(seed: int, repeat: int) -> int:
    """The seed that a training program is given: at most 2^31 - 1, which every library takes.

    It depends on no parameter, so each configuration is tried with the same seeds and the differences between them are
    the configurations' own.

    Args:
        seed: The experiment's seed.
        repeat: Which of a configuration's trials it is, from 0.
    """
    return derive_seed(seed, "trial", repeat, bits=32) >> 1
