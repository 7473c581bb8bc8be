"""Results of an earlier experiment, for the searcher of another one.

They are selected once, when the earlier experiment has ended, and stored with the one that learns from them (decision
10). So after a restart the searcher observes the same, even if the earlier experiment no longer exists.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from podtune.api.names import TrialState
from podtune.api.resources.experiment import ExperimentSpec
from podtune.api.tuning.configuration import ConfigurationRules
from podtune.api.tuning.search_space import format_value, parse_configuration
from podtune.protocol.messages import read_number
from podtune.runner.records import Trial
from podtune.runner.search.observation_log import average
from podtune.runner.trial.results import parse_metrics
from podtune.tuning.searchers.base import Observation

RESULTS_KEY = "results.jsonl"
"""Where the text of all results is in the ConfigMap, one a line."""
MAX_WARM_START_BYTES = 768 * 1024
"""Largest text of all results; a ConfigMap takes a mebibyte."""


class Unusable(ValueError):
    """What is kept can't be read; somebody has changed it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was picked out.

    Attributes:
        observations: Results, in the order in which they came.
        text: The same, to be kept.
        passed_over: Trials that are not among them: they have no value, or lie outside of the search space.
        cut: Trials that there was no room for, the oldest.
    """

    observations: tuple[Observation, ...]
    text: str
    passed_over: int
    cut: int


def pick_observations(spec: ExperimentSpec, trials: Iterable[Trial]) -> Found:
    """Picks out what a searcher can be told of the trials of an experiment that has ended.

    Repeats of a configuration make one result, their mean.

    Args:
        spec: The experiment that learns.
        trials: All trials of the one that has ended.
    """
    rules = ConfigurationRules(spec.parameters, spec.constraints)
    proposals: defaultdict[int, list[Trial]] = defaultdict(list)
    for trial in trials:
        proposal = trial.spec.proposal
        proposals[trial.spec.index if proposal is None else proposal.number].append(trial)
    ordered = sorted(proposals.values(), key=lambda repeats: max(_read_seq(trial) for trial in repeats))
    results = [(repeats, _build_result(spec, rules, repeats)) for repeats in ordered]
    lines = [_format_line(observation) for _, observation in results if observation is not None]
    kept = _list_newest(lines)
    cut = len(lines) - len(kept)
    return Found(
        observations=tuple(_parse_observations(spec, kept)),
        text="".join(kept),
        passed_over=sum(len(repeats) for repeats, observation in results if observation is None),
        cut=cut,
    )


def format_data(source: str, observations: Iterable[Observation]) -> dict[str, str]:
    """Returns what the ConfigMap of a warm start holds.

    Args:
        source: Name of the earlier experiment.
        observations: Its results, as the search was told of them.
    """
    return {"experiment": source, RESULTS_KEY: "".join(map(_format_line, observations))}


def read(spec: ExperimentSpec, text: str) -> tuple[Observation, ...]:
    """Reads back what was kept.

    Raises:
        Unusable: It is not what `pick_observations` has written.
    """
    try:
        return tuple(_parse_observations(spec, text.splitlines()))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unusable(f"{type(error).__name__}: {error}") from error


def _read_seq(trial: Trial) -> int:
    return -1 if trial.status.observation_seq is None else trial.status.observation_seq


def _build_result(spec: ExperimentSpec, rules: ConfigurationRules, repeats: Sequence[Trial]) -> Observation | None:
    configuration = rules.recognise(repeats[0].status.parameters or repeats[0].spec.parameters)
    observations = [observation for trial in repeats if (observation := _build_observation(spec, trial)) is not None]
    return (
        replace(average(observations), configuration=configuration)
        if configuration is not None and observations
        else None
    )


def _build_observation(spec: ExperimentSpec, trial: Trial) -> Observation | None:
    """The trial's result, without its configuration; None where it came to no good end, or has no value."""
    metrics = parse_metrics(trial.status.last_result)
    values = [read_number(metrics, criterion.metric) for criterion in spec.objective.criteria]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if trial.status.state is not TrialState.TERMINATED or len(known) < len(values):
        return None
    return Observation(
        number=-1, configuration={}, value=known[0], step=trial.status.iteration, others=tuple(known[1:])
    )


def _format_line(observation: Observation) -> str:
    parameters = {name: format_value(value) for name, value in observation.configuration.items()}
    return (
        json.dumps(
            {"parameters": parameters, "values": [observation.value, *observation.others], "step": observation.step}
        )
        + "\n"
    )


def _list_newest(lines: Sequence[str]) -> Sequence[str]:
    """As many as there is room for, the newest."""
    room, first = MAX_WARM_START_BYTES, len(lines)
    while first and (room := room - len(lines[first - 1].encode())) >= 0:
        first -= 1
    return lines[first:]


def _parse_observations(spec: ExperimentSpec, lines: Sequence[str]) -> Iterable[Observation]:
    for position, line in enumerate(lines):
        entry = json.loads(line)
        value, *others = map(float, entry["values"])
        yield Observation(
            number=position - len(lines),
            configuration=parse_configuration(spec.parameters, entry["parameters"]),
            value=value,
            step=int(entry["step"]),
            others=tuple(others),
        )
