"""`podtune restore --list`: which experiments a store could be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from podtune.cli.archives.stored_experiments import StoredExperiment, find_stored_experiments, leave_out_former
from podtune.cli.client.api_client import Api
from podtune.cli.client.store_access import StoreOptions, open_store_of
from podtune.cli.errors import CliError
from podtune.cli.output import CommandAnswer, name_experiment, print_answer, print_note
from podtune.cli.views.columns import align_columns
from podtune.cli.views.numbers import format_count

_ANY_KEY = "any"
_HEADER = ("NAMESPACE", "NAME", "STATE", "TRIALS", "ADDRESS")


def print_stored_experiments(
    uri: str, options: StoreOptions, open_api: Callable[[], tuple[Api, str]], output: StrEnum | None
) -> None:
    """Prints the experiments below an address, which may be that of a whole bucket.

    Raises:
        CliError: There is none.
        StoreError: The store can't be read.
        StoreSettingsError: It is no address.
    """
    below = f"{uri}/{_ANY_KEY}"
    with open_store_of(below, options, open_api) as opened:
        found = find_stored_experiments(opened.store, opened.address.find_key(below).removesuffix(_ANY_KEY))
    if not found:
        raise CliError(f"there is no snapshot of an experiment below {uri}; correct the address")
    shown = leave_out_former(found)
    scheme, _, rest = uri.partition("://")
    root = f"{scheme}://{rest.partition('/')[0]}"
    readable = [one for one in shown if not one.problem]
    for one in shown:
        if one.problem:
            print_note(f"warning: {root}/{one.prefix} has an experiment that can't be restored: {one.problem}")
    if left := len(found) - len(shown):
        print_note(f"{format_count(left, 'older snapshot')} left out, which others here were restored from")
    answer = CommandAnswer(
        lines=lambda _: _list_lines(root, readable),
        facts=lambda: {"items": [_collect(root, one) for one in readable]},
        names=lambda: [name_experiment(one.name) for one in readable],
    )
    print_answer(answer, output)


def _list_lines(root: str, found: Sequence[StoredExperiment]) -> list[str]:
    rows = [(one.namespace, one.name, one.state, f"{one.ended}/{one.trials}", f"{root}/{one.prefix}") for one in found]
    return align_columns(_HEADER, rows)


def _collect(root: str, one: StoredExperiment) -> Mapping[str, Any]:
    return {
        "namespace": one.namespace,
        "name": one.name,
        "uid": one.uid,
        "address": f"{root}/{one.prefix}",
        "state": one.state,
        "trials": {"total": one.trials, "ended": one.ended},
        "secrets": list(one.secrets),
        "configMaps": list(one.config_maps),
    }
