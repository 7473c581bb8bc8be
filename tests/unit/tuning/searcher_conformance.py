"""The suite that searchers inherit; it is part of the package, so that others can test theirs by it."""

from podtune.testing.searchers import Asked, SearcherConformance, proposal, recorded_run

__all__ = ["Asked", "SearcherConformance", "proposal", "recorded_run"]
