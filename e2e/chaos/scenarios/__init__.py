"""The experiments that are disturbed."""
