"""The suite that schedulers inherit; it is part of the package, so that others can test theirs by it."""

from podtune.testing.life import Life
from podtune.testing.schedulers import SchedulerConformance

__all__ = ["Life", "SchedulerConformance"]
