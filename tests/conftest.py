"""For all tests."""

from __future__ import annotations

import os

# As in the operator's image: on small matrices several threads are slower, and sums depend on how many there are. It
# counts only from before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
