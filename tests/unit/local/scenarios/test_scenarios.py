"""Scenarios of the runner's, over processes: the tests themselves, in another world.

The others that one machine can have are in `test_more_scenarios`.
"""

# ruff: noqa: F401

from __future__ import annotations

import pytest

from tests.unit.runner.scenarios.attempts.test_failures import (
    test_a_crash_resumes_at_the_last_committed_checkpoint,
    test_a_rule_looks_for_its_expression_in_the_programs_log,
)
from tests.unit.runner.scenarios.checkpoints.test_checkpoints_and_decisions import (
    test_without_a_store_a_retry_starts_afresh,
)
from tests.unit.runner.scenarios.experiment.test_experiment_end import (
    test_a_space_that_is_exhausted_ends_the_experiment,
)
from tests.unit.runner.scenarios.scheduling.test_exploits import (
    test_a_donor_that_has_ended_is_cloned_all_the_same,
)
from tests.unit.runner.scenarios.search.test_search import (
    test_with_one_trial_at_a_time_each_proposal_knows_all_that_came_before,
)
from tests.unit.runner.scenarios.trial.test_evaluations import (
    test_the_evaluations_metric_is_the_trials_result,
)

pytestmark = pytest.mark.usefixtures("over_processes")
