"""A module of the user's, which travels along."""


def scale(value: float) -> float:
    return value * 10
