"""The one exception of this package."""


class ClusterError(Exception):
    """The local cluster could not do what was asked; the message says why, and what to do about it."""
