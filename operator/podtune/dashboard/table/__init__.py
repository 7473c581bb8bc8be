"""The table of trials: what is asked for in its address, which trials that are, and how they are written."""
