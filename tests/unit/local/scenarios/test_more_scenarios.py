"""The other scenarios of the runner's that one machine can have, over processes.

Left out are those of nodes, gangs, warm pods, requests of users and an API server that loses answers, which it has
not, and those that count simulated seconds.
"""

# ruff: noqa: F401

from __future__ import annotations

import pytest

from tests.unit.runner.scenarios.attempts.test_failures import (
    test_an_attempt_whose_pods_can_not_be_completed_spends_no_failure,
    test_logs_that_can_not_be_had_do_not_hold_up_the_end,
    test_the_message_tells_what_an_attempt_resumed_from,
)
from tests.unit.runner.scenarios.attempts.test_refusals import (
    test_parameters_that_come_to_no_resources_end_their_trial_before_its_pod,
)
from tests.unit.runner.scenarios.attempts.test_retries_and_restores import (
    test_a_damaged_checkpoint_is_fallen_back_from_by_one_and_then_to_a_fresh_start,
    test_a_failed_restore_fails_no_trial,
)
from tests.unit.runner.scenarios.attempts.test_usable_results import (
    test_a_criterion_that_ends_trials_does_not_make_them_good,
    test_a_good_end_by_a_rule_is_none_without_a_result,
    test_a_rule_may_have_it_tried_again,
    test_a_scheduler_is_shown_nan_in_its_place,
    test_a_trial_that_was_trained_to_the_end_without_a_value_is_an_error_too,
    test_a_trial_without_a_usable_value_is_an_error_under_every_scheduler,
    test_an_infinity_that_nothing_could_beat_never_wins,
    test_it_is_not_tried_again,
    test_lenient_passes_over_the_trial_but_not_an_experiment_without_any_result,
    test_one_finite_value_is_enough,
    test_people_get_four_digits_and_programs_all_of_them,
    test_trials_that_crash_and_trials_without_a_value,
    test_what_is_not_finite_is_no_best_value_whoever_wrote_it,
)
from tests.unit.runner.scenarios.checkpoints.test_checkpoints_and_decisions import (
    test_a_decision_waits_for_the_checkpoint_of_its_result,
    test_the_best_checkpoint_is_the_newest_among_equals,
    test_the_templates_grace_period_may_be_null_or_0,
    test_which_checkpoints_are_kept,
)
from tests.unit.runner.scenarios.checkpoints.test_former_trials import (
    test_a_trial_that_was_not_deleted_says_nothing,
)
from tests.unit.runner.scenarios.experiment.test_experiment_end import (
    test_an_experiment_whose_trials_all_fail_has_failed,
    test_fail_fast_stops_the_others,
    test_some_trials_in_error_are_no_failure_of_the_experiment,
    test_the_best_is_the_same_whoever_reached_it_first,
)
from tests.unit.runner.scenarios.experiment.test_front import (
    test_failed_trials_and_those_that_lack_a_value_are_not_on_the_front,
    test_repeats_stand_on_the_front_with_their_mean,
    test_the_searcher_is_told_all_values,
    test_the_status_shows_the_trials_that_no_other_one_beats,
    test_with_one_objective_there_is_no_front,
)
from tests.unit.runner.scenarios.experiment.test_template_revisions import (
    test_a_template_that_never_changes_costs_no_trial_a_word,
)
from tests.unit.runner.scenarios.experiment.test_writes_and_cleanup import (
    test_events_are_emitted_for_what_went_wrong_and_not_tried_again,
)
from tests.unit.runner.scenarios.scheduling.test_exploits import (
    test_a_paused_trial_may_start_as_a_clone,
)
from tests.unit.runner.scenarios.scheduling.test_paused_trials import (
    test_a_trial_that_is_never_paused_writes_nothing_new,
    test_an_experiment_that_ends_takes_its_paused_trials_with_it,
    test_paused_trials_that_nothing_can_promote_any_more_end_with_the_experiment,
)
from tests.unit.runner.scenarios.search.test_search import (
    test_a_configuration_whose_repeats_all_fail_has_failed,
    test_a_grid_leaves_out_what_is_known_and_what_was_tried_first,
    test_a_lucky_repeat_is_not_the_best,
    test_a_repeat_that_fails_is_left_out_of_the_mean,
    test_a_repeat_that_was_stopped_early_counts_with_what_it_had_reached,
    test_a_searcher_that_learns_nothing_costs_no_write,
    test_a_space_of_which_all_is_known_is_exhausted_at_once,
    test_a_space_that_is_exhausted_with_repeats_is_said_to_be,
    test_each_configuration_runs_several_times_with_seeds_of_their_own,
    test_each_trial_has_a_display_name_of_its_parameters,
    test_initial_configurations_are_repeated_too,
    test_initial_configurations_come_first_and_the_others_as_without_them,
    test_no_more_is_asked_for_than_there_may_be,
    test_the_best_is_the_mean_with_its_spread,
    test_the_searcher_is_told_the_mean_once,
    test_what_is_known_is_not_run_but_told,
    test_what_is_to_be_asked_stands_in_the_status_before_it_is_asked,
    test_where_nothing_goes_wrong_there_is_no_such_condition,
)
from tests.unit.runner.scenarios.trial.test_evaluations import (
    test_a_failed_evaluation_is_retried_alone,
    test_a_scheduler_sees_the_trainings_metric_and_what_it_prunes_is_not_evaluated,
    test_a_trial_without_a_checkpoint_is_in_error,
    test_an_evaluation_that_reports_no_objective_is_an_error,
    test_an_evaluation_uses_a_slot_and_comes_before_other_trials,
    test_evaluations_have_a_limit_of_their_own,
    test_the_best_checkpoint_is_evaluated_and_kept,
    test_the_evaluation_restores_the_last_checkpoint_or_fails,
    test_the_searcher_is_told_of_the_evaluation_alone,
)

pytestmark = [pytest.mark.usefixtures("over_processes"), pytest.mark.long]
