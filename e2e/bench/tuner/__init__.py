"""How well and how fast the tuner tunes, beside those that do the same: no cluster is needed."""
