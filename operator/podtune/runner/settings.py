"""Times and limits of the runner, which belong to the operator, not to an experiment."""

from __future__ import annotations

from dataclasses import dataclass, field

from podtune.runner.backoff import Backoff


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """How long the runner waits for what, all in seconds; and what it is told of the operator.

    Attributes:
        agent_image: The agent's image, for the status of experiments that store on a volume.
        result_debounce: A result that nothing depends on is written to the status within this.
        throttle_above_trials: Where more trials than this have a pod, in all experiments, that time grows in
            proportion, up to 30 seconds. Agents keep what is not written.
        checkpoint_debounce: A committed checkpoint is written to the status within this.
        pending_debounce: A pod that is kept from starting is explained in the status after this.
        starting_debounce: One that merely takes its time, or waits for its turn, is explained after this.
        running_debounce: That a trial runs is written after this: one that is over by then costs a write less.
        first_result_debounce: The same once it has a result.
        message_debounce: Other words for the same reason are written within this; those of Kubernetes change often.
        experiment_debounce: The experiment's status is written this often at most; its end, at once.
        throttle_above_experiments: Where more experiments than this go on, the interval grows in proportion, up to 30
            seconds.
        handover_wait: A program in a warm pod leaves a trial that is to stop or pause within this, or its pod goes.
        idle_pod_time: A warm pod that no trial needs is deleted after this.
        finished_pod_time: A finished pod that nobody asked to be retained is deleted after this.
        finished_pods: Sooner, if an experiment has more of them than this: the first to end goes first.
        retained_pods: After the experiment's end, so many trials' pods are retained, at most.
        cleanup_batch: Finished trials whose pods are deleted by one call, at most.
        report_wait: An agent finds an operator that was started anew within this.
        requeue_wait: A pod that avoids nodes is left to the scheduler for this before it is made anew.
        refusal_wait: The API server is asked again after this, up to a tenth more or less, whether it takes pods that
            it has refused.
        creation_timeout: A pod whose creation got no answer shows up within this, or was not made.
        proposal_batch: Proposals asked for at a time, at most.
        proposal_deadline: A searcher that thinks longer about a request is called slow.
        observation_wait: Ends of trials that are being written are waited for this long before the searcher is asked.
        log_tries: An ended pod's logs are asked for this often; then its end is told without them.
        storage_tries: A job in the bucket is tried so often.
        storage_backoff: Wait before a job in the bucket is tried again.
        prune_period: While an experiment runs, stopped trials' leavings in the bucket are deleted so often, at most.
        storage_end_wait: An experiment's end waits so long for its storage pod, at most, to be called one.
        storage_start_deadline: A storage pod that has not started within this is given up.
        api_backoff: Wait before an action that failed is tried again.
        records_transitions: Whether statuses keep their latest changes of state, for webhooks.
        records_times: Whether statuses keep where the last attempt was, when it began and when it ended, for traces.
    """

    agent_image: str = ""
    result_debounce: float = 3.0
    throttle_above_trials: int = 100
    checkpoint_debounce: float = 0.5
    pending_debounce: float = 2.0
    starting_debounce: float = 5.0
    running_debounce: float = 2.0
    first_result_debounce: float = 0.5
    message_debounce: float = 30.0
    experiment_debounce: float = 1.0
    throttle_above_experiments: int = 10
    handover_wait: float = 10.0
    idle_pod_time: float = 10.0
    finished_pod_time: float = 600.0
    finished_pods: int = 2500
    retained_pods: int = 250
    cleanup_batch: int = 64
    report_wait: float = 60.0
    requeue_wait: float = 30.0
    refusal_wait: float = 300.0
    creation_timeout: float = 30.0
    proposal_batch: int = 16
    proposal_deadline: float = 120.0
    observation_wait: float = 2.0
    log_tries: int = 4
    storage_tries: int = 5
    storage_backoff: Backoff = field(default_factory=lambda: Backoff(10.0, 300.0))
    prune_period: float = 600.0
    storage_end_wait: float = 60.0
    storage_start_deadline: float = 300.0
    api_backoff: Backoff = field(default_factory=lambda: Backoff(0.5, 60.0))
    records_transitions: bool = False
    records_times: bool = False
