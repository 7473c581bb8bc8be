"""Stoppers of other packages: one for each trial and rule, what they remember, and what happens if one fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint

from typing_extensions import override

from podtune.api.resources.trial import MAX_STOPPER_RECORD
from podtune.api.tuning.objective import Objective
from podtune.api.tuning.plugin import Plugin
from podtune.tuning.plugins import PluginFailure, describe_failure, find_entry, make_from_entry
from podtune.tuning.schedulers.base import MetricMissing, Metrics, RecordError
from podtune.tuning.stoppers.base import Finding, StopCriterion, Stopper, TrialProgress

STOPPER_PLUGINS = "podtune.stoppers"
"""The group of entry points by which other packages offer stoppers."""


class PluginRule(StopCriterion[TrialProgress]):
    """Holds if a stopper of another package has found so in the last result.

    Example:
        stop: {trial: [{plugin: {name: patience}}]}
    """

    def __init__(self, key: str) -> None:
        """Looks for the finding with this key, which `PluginStoppers.add_rule` gives."""
        self._key = key

    @override
    def check(self, progress: TrialProgress) -> Finding | None:
        return progress.findings.get(self._key)


@dataclass(slots=True)
class _Rule:
    field: str
    plugin: Plugin
    entry: EntryPoint


@dataclass(slots=True)
class _State:
    """What is known of a trial and a rule.

    Attributes:
        record: What the stopper has to remember.
        stopper: None until the next result, after a restart or a failure.
        finding: What it found in the last result.
    """

    record: Mapping[str, str] = field(default_factory=dict)
    stopper: Stopper | None = None
    finding: Finding | None = None


@dataclass(slots=True)
class _Trial:
    states: dict[str, _State] = field(default_factory=dict)
    remark: str = ""


class PluginStoppers:
    """Shows the results of all trials to the stoppers of other packages.

    A stopper that fails on a result is made anew from its record before the trial's next one, as if it had never seen
    that result: what a restarted operator knows is no less.
    """

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._rules: dict[str, _Rule] = {}
        self._trials: dict[int, _Trial] = {}
        self._failures: dict[tuple[int, str], PluginFailure] = {}

    def add_rule(self, field: str, plugin: Plugin) -> str:
        """Adds a rule, and checks that its stopper can be made.

        Args:
            field: Where it stands in the Experiment, such as stop.trial[0].plugin.
            plugin: The stopper, with its settings.

        Returns:
            The key of its record and its findings: the plugin's name, with a number where that has several rules.

        Raises:
            PluginError: It can't be used.
        """
        count = sum(rule.plugin.name == plugin.name for rule in self._rules.values())
        key = f"{plugin.name}#{count + 1}" if count else plugin.name
        rule = _Rule(field, plugin, find_entry(STOPPER_PLUGINS, plugin))
        self._make(rule)
        self._rules[key] = rule
        return key

    @property
    def failure(self) -> PluginFailure | None:
        """What has failed and what to do about it; None where all works.

        A failure ends when a later result of the same trial is taken; the rules of a corrected spec start without any.
        """
        return next(iter(self._failures.values()), None)

    def on_result(self, trial: int, metrics: Metrics) -> None:
        """Shows a trial's next result to all of them."""
        if not self._rules:
            return
        known = self._trials.setdefault(trial, _Trial())
        remarks = [self._show_result(trial, key, known, metrics) for key in self._rules]
        known.remark = next(filter(None, remarks), "")

    def get_findings(self, trial: int) -> Mapping[str, Finding]:
        """What was found in a trial's last result, by key."""
        known = self._trials.get(trial)
        if known is None:
            return {}
        return {key: state.finding for key, state in known.states.items() if state.finding is not None}

    def get_remark(self, trial: int) -> str:
        """Which rule has skipped a trial's last result, and why; empty where none has."""
        known = self._trials.get(trial)
        return known.remark if known is not None else ""

    def forget(self, trial: int) -> None:
        """Forgets a trial; a failure on it stays."""
        self._trials.pop(trial, None)

    def record(self, trial: int) -> Mapping[str, str]:
        """What has to be remembered of a trial, by key."""
        known = self._trials.get(trial)
        if known is None:
            return {}
        texts = {key: encode_memory(state.record, state.finding) for key, state in known.states.items()}
        return {key: text for key, text in texts.items() if text}

    def restore(self, trial: int, record: Mapping[str, str]) -> None:
        """Takes in what is remembered of a trial; rules that no longer exist are left out.

        Raises:
            RecordError: An entry is not what `record` writes.
        """
        kept = {key: _decode(trial, key, text) for key, text in record.items() if key in self._rules}
        if kept:
            self._trials[trial] = _Trial(kept)

    def _show_result(self, trial: int, key: str, known: _Trial, metrics: Metrics) -> str:
        """Shows a result to one stopper; returns why it was skipped, empty where it was not."""
        rule, state = self._rules[key], known.states.setdefault(key, _State())
        stopper, state.stopper, state.finding = state.stopper, None, None
        try:
            stopper = stopper or self._restore_stopper(rule, state.record)
            finding = stopper.on_result(metrics)
            record = dict(stopper.record())
            _check(record, finding)
        except MetricMissing as missing:
            self._failures.pop((trial, key), None)
            return f"{rule.field} is passed over: {missing}"
        except Exception as error:  # noqa: BLE001 - it may be anyone's code; its failure is the experiment's alone
            self._failures[trial, key] = self._describe_failure(trial, key, error)
            return f"{rule.field} has failed, so it does not stop this trial"
        self._failures.pop((trial, key), None)
        state.stopper, state.finding, state.record = stopper, finding, record
        return ""

    def _restore_stopper(self, rule: _Rule, record: Mapping[str, str]) -> Stopper:
        stopper = self._make(rule)
        if record:
            stopper.restore(record)
        return stopper

    def _make(self, rule: _Rule) -> Stopper:
        return make_from_entry(rule.entry, rule.plugin, Stopper, objective=self._objective)  # type: ignore[type-abstract]

    def _describe_failure(self, trial: int, key: str, error: Exception) -> PluginFailure:
        rule = self._rules[key]
        follows = (
            "install a corrected version, or change or remove the rule; until then no trial starts, and running trials "
            "continue without it"
        )
        return describe_failure(rule.field, rule.plugin, f"on a result of trial {trial}", error, follows)


def _check(record: Mapping[str, str], finding: Finding | None) -> None:
    """Checks what somebody else's code has returned.

    Raises:
        TypeError: It is no record, or no finding.
        ValueError: It is too long.
    """
    if finding is not None and not isinstance(finding, Finding):
        raise TypeError(f"on_result() returned {finding!r:.80}; return a Finding or None")
    if not all(isinstance(text, str) for pair in record.items() for text in pair):
        raise TypeError(f"record() returned {record!r:.80}; return texts by name")
    length = len(encode_memory(record, finding))
    if length > MAX_STOPPER_RECORD:
        raise ValueError(f"record and finding have {length} characters of JSON; return at most {MAX_STOPPER_RECORD}")


def encode_memory(record: Mapping[str, str], finding: Finding | None) -> str:
    """A record as a Trial's status holds it: with what was found, which counts until the next result."""
    parts: dict[str, object] = {"record": dict(record)} if record else {}
    if finding is not None:
        parts["finding"] = {"clause": finding.clause, "inputs": dict(finding.inputs)}
    return json.dumps(parts, sort_keys=True) if parts else ""


def _decode(trial: int, key: str, text: str) -> _State:
    """What is known of a trial and a rule after a restart.

    Raises:
        RecordError: The text is none that `encode_memory` writes.
    """
    try:
        parts = json.loads(text)
        found = parts.get("finding")
        finding = None if found is None else Finding(found["clause"], found["inputs"])
        return _State(dict(parts.get("record", {})), finding=finding)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = "which is not what is written there; remove the entry"
        raise RecordError(f"trial {trial}: status.stopper.plugins[{key!r}] is {text!r:.80}, {problem}") from error
