"""What a searcher, scheduler, stopper or store has to hold, as tests to inherit; for ours and for other packages'.

Needs what the extra `testing` installs, which the operator itself does not.
"""

import pytest

pytest.register_assert_rewrite(
    "podtune.testing.scheduler_driver",
    "podtune.testing.searchers",
    "podtune.testing.schedulers",
    "podtune.testing.stoppers",
    "podtune.testing.stores",
)
