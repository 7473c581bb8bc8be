"""The user's own rules on failed attempts (`failures.rules`): the first that matches decides."""

from __future__ import annotations

from collections.abc import Sequence

from podtune.api.patterns import compiled
from podtune.api.resources.failures import FailureRule


def first_match(
    rules: Sequence[FailureRule], *, reason: str, exit_code: int | None, log_tail: str | None
) -> tuple[int, FailureRule] | None:
    """The first rule all of whose conditions hold, and its position; None where there is none.

    Args:
        rules: The rules, in the user's order.
        reason: The end in one word.
        exit_code: The exit code, where the program ended by itself.
        log_tail: The last lines of its log; None where they say nothing of the end.
    """
    for position, rule in enumerate(rules):
        if rule.reason is not None and rule.reason != reason:
            continue
        if rule.exit_codes is not None and exit_code not in rule.exit_codes:
            continue
        if rule.log_regex is not None and (log_tail is None or not compiled(rule.log_regex).search(log_tail)):
            continue
        return position, rule
    return None
