"""Reads the logs of an attempt's containers if its end can't be explained without them.

If the operator ends a program because of a failure, it reads the last lines before it deletes the pod: afterwards there
is no time.
"""

from __future__ import annotations

import json
from typing import TypeGuard

from podtune.api.names import DecisionAction, TrialReason
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import UNACKED_PREFIX, Result, parse_result
from podtune.runner.actions import FetchLogs
from podtune.runner.attempts import usable_results
from podtune.runner.attempts.classification import find_swept
from podtune.runner.records import Pod, PodPhase
from podtune.runner.scheduling import evaluations
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.phase import TrialPhase


def find_needed_at_end(trial: TrialMachine, pod: Pod) -> FetchLogs | None:
    """The logs without which the end can't be told in full; None where nothing is missing, or they are at hand."""
    if trial.current.logs is not None or trial.phase is TrialPhase.STOPPING:
        return None
    final = trial.read_final_commit()
    agent = final is not None and final.seq > trial.current.acked_seq and not pod.gone
    telling = _find_telling_pod(trial)
    if telling is None and not agent:
        return None
    return FetchLogs(
        trial.name,
        pod.name,
        program=telling.program if telling else "",
        agent=agent,
        failed=telling.name if telling else "",
    )


def find_needed_before_deletion(trial: TrialMachine) -> FetchLogs | None:
    """The log of a program that is about to be ended for a bad reason, such as silence; None where it is at hand."""
    pod = trial.pod if _is_failed_by_decision(trial) and trial.current.printed is None else None
    return FetchLogs(trial.name, pod.name, program=pod.program, agent=False, early=True) if _has_printed(pod) else None


def read_unacked_results(trial: TrialMachine) -> list[Result]:
    """The results that the agent printed because nobody had acknowledged them, in order."""
    unacked = []
    for line in trial.current.logs.agent_lines if trial.current.logs else ():
        if not line.startswith(UNACKED_PREFIX):
            continue
        try:
            unacked.append(parse_result(json.loads(line.removeprefix(UNACKED_PREFIX))))
        except (ProtocolError, ValueError):
            continue  # a line cut off by the log's own limits: the gap shows as ResultsComplete=False
    return sorted(unacked, key=lambda result: result.seq)


def _find_telling_pod(trial: TrialMachine) -> Pod | None:
    """The pod whose program has printed why the attempt is a failure."""
    decision = trial.status.decision
    if decision is not None and _is_failed_by_decision(trial):
        return trial.pod if trial.current.printed is None and _has_printed(trial.pod) else None
    if decision is not None and decision.action is not DecisionAction.END:
        return None
    swept = find_swept(decision, trial.current.pods)
    ended = [pod for pod in trial.current.pods if _has_printed(pod) and pod.uid not in swept]
    failed = next((pod for pod in ended if pod.phase is PodPhase.FAILED), None)
    return failed or next((pod for pod in ended if _lacks_result(trial)), None)


def _is_failed_by_decision(trial: TrialMachine) -> bool:
    """Whether it was decided that the attempt is a failure, for something that the program has done, or not done."""
    decision = trial.status.decision
    if decision is None or decision.reason == TrialReason.STORE_UNUSABLE:
        return False
    return decision.action in (DecisionAction.FAIL, DecisionAction.RETRY)


def _has_printed(pod: Pod | None) -> TypeGuard[Pod]:
    """Whether a pod's program has run, so that it has a log that can be read."""
    return pod is not None and pod.training and not pod.gone


def _lacks_result(trial: TrialMachine) -> bool:
    """Whether an objective is missing at the end, where that is an error: the program may have printed why."""
    spec, status = trial.context.spec, trial.status
    if spec.evaluation is not None and not trial.is_evaluated:
        return evaluations.choose_evaluated(status, spec) is None
    objective, final = spec.objective, trial.read_final_commit()
    if objective.missing == "lenient":
        return False
    last = final.last.metrics if final is not None and final.last is not None else {}
    if trial.is_evaluated:
        status = evaluations.preview_end(status, spec)
    return usable_results.is_lacking(status, objective, last)
