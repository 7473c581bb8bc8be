"""The dashboard at 10,000 trials: what a page takes, and what an update of one costs."""
