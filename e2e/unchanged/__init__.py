"""Scripts that know nothing of Podtune, and how to tune each of them: `table.py` lists them."""
