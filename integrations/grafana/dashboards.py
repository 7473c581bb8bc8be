"""Podtune's dashboards for Grafana: one for who runs the operator, one for who runs experiments."""

from __future__ import annotations

from pathlib import Path

from integrations.grafana.grafana import Dashboard, Panel, PanelKind, Variable

ROOT = Path(__file__).resolve().parents[2]
_OPERATOR = 'job="$job",namespace="$operator"'
_EXPERIMENT = 'job="$job",namespace=~"$namespace",experiment=~"$experiment"'
_JOB = Variable("job", "Job", "label_values(podtune_build_info, job)")


def _quantile(part: float, metric: str, by: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, sum by ({labels}) (rate({metric}_bucket{{{_OPERATOR}}}[$__rate_interval])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}{{{_OPERATOR}}}[$__rate_interval]))"


def _by_experiment(metric: str, labels: str = "") -> dict[str, str]:
    """A query, by its legend."""
    return {"{{namespace}}/{{experiment}}": f"sum by (namespace, experiment) ({metric}{{{_EXPERIMENT}{labels}}})"}


def _number(title: str, meaning: str, query: str, unit: str = "short", width: int = 4) -> Panel:
    return Panel(title, meaning, {"": query}, unit, PanelKind.NUMBER, width)


OPERATIONS = Dashboard(
    "podtune-operations",
    "Podtune / Operations",
    "Whether the operator is well, and what it is waiting for.",
    (_JOB, Variable("operator", "Operator", 'label_values(podtune_build_info{job="$job"}, namespace)')),
    {
        "Is it well?": [
            _number("Operators", "Processes that answer.", f"sum(up{{{_OPERATOR}}})"),
            _number("Leaders", "One, but for the seconds of a change.", f"sum(podtune_leading{{{_OPERATOR}}})"),
            _number(
                "Firing alerts",
                "Those of Podtune, whoever they are about.",
                'count(ALERTS{alertname=~"Podtune.+",alertstate="firing"}) or vector(0)',
            ),
            _number(
                "Watch lag",
                "For how long a watch has owed a write. After a minute the operator is restarted.",
                f"max(podtune_watch_lag_seconds{{{_OPERATOR}}})",
                "s",
            ),
            _number("Due", "Experiments that wait for a decision.", f"sum(podtune_experiments_due{{{_OPERATOR}}})"),
            Panel(
                "Versions",
                "Of each process; two for more than an upgrade takes are one too many.",
                {"{{version}}": f"count by (version) (podtune_build_info{{{_OPERATOR}}})"},
                kind=PanelKind.NUMBER,
                width=4,
            ),
        ],
        "Decisions": [
            Panel(
                "Wait for a decision",
                "From when something happened to an experiment to when it was decided what to do.",
                {
                    "half of them": _quantile(0.5, "podtune_decision_wait_seconds"),
                    "99 of 100": _quantile(0.99, "podtune_decision_wait_seconds"),
                },
                "s",
            ),
            Panel(
                "Time to decide",
                "What the decision itself takes.",
                {
                    "half of them": _quantile(0.5, "podtune_reconcile_seconds"),
                    "99 of 100": _quantile(0.99, "podtune_reconcile_seconds"),
                },
                "s",
            ),
            Panel(
                "Errors of its own",
                "Decisions that have failed within an hour. None is as it should be.",
                {"{{pod}}": f"increase(podtune_reconcile_errors_total{{{_OPERATOR}}}[1h])"},
            ),
            Panel(
                "Tasks",
                "Of each process's event loop. What grows from day to day is a leak.",
                {"{{pod}}": f"podtune_event_loop_tasks{{{_OPERATOR}}}"},
            ),
        ],
        "API server": [
            Panel(
                "Requests by answer",
                "HTTP statuses; none: there was no whole answer.",
                {"{{code}}": _rate("podtune_api_requests_total", "code")},
                "ops",
                stacked=True,
            ),
            Panel(
                "Actions that wait",
                "For their turn, by pool. Requests are mostly writes of statuses.",
                {"{{pool}}": f"sum by (pool) (podtune_actions_waiting{{{_OPERATOR}}})"},
            ),
            Panel(
                "Time of actions",
                "99 of 100 actions of a kind take no longer.",
                {"{{action}}": _quantile(0.99, "podtune_action_seconds", "action")},
                "s",
            ),
            Panel(
                "Actions by outcome",
                "refused: it can't be done as asked; failed: it is tried again.",
                {"{{outcome}}": _rate("podtune_actions_total", "outcome")},
                "ops",
            ),
        ],
        "Agents": [
            Panel(
                "Results",
                "Taken in, those sent twice included.",
                {"results": f"sum(rate(podtune_results_total{{{_OPERATOR}}}[$__rate_interval]))"},
                "ops",
            ),
            Panel(
                "Reports by answer",
                "HTTP statuses; 409 is the answer to a pod that was replaced.",
                {"{{code}}": _rate("podtune_reports_total", "code")},
                "ops",
                stacked=True,
            ),
            Panel(
                "Logs passed on",
                "To agents that read results from output. 2,000 at most.",
                {"{{pod}}": f"podtune_log_relays{{{_OPERATOR}}}"},
            ),
        ],
        "Webhooks": [
            Panel(
                "Requests by answer",
                "none: the receiver did not answer.",
                {"{{receiver}} {{answer}}": _rate("podtune_webhook_requests_total", "receiver, answer")},
                "ops",
            ),
            Panel(
                "Pending",
                "Experiments and trials that a receiver has still to be told of.",
                {"{{receiver}}": f"sum by (receiver) (podtune_webhook_pending{{{_OPERATOR}}})"},
            ),
            Panel(
                "Events by outcome",
                "missed and given_up: the receiver will never hear of them.",
                {"{{receiver}} {{outcome}}": _rate("podtune_webhook_events_total", "receiver, outcome")},
                "ops",
            ),
        ],
        "Process": [
            Panel(
                "Processor",
                "Cores. The operator uses one at most.",
                {"{{pod}}": f"rate(process_cpu_seconds_total{{{_OPERATOR}}}[$__rate_interval])"},
            ),
            Panel("Memory", "Resident.", {"{{pod}}": f"process_resident_memory_bytes{{{_OPERATOR}}}"}, "bytes"),
            Panel(
                "Restarts",
                "Within an hour.",
                {"{{pod}}": f"changes(process_start_time_seconds{{{_OPERATOR}}}[1h])"},
            ),
        ],
    },
)

EXPERIMENTS = Dashboard(
    "podtune-experiments",
    "Podtune / Experiments",
    "What runs, what waits, and what something is wrong with.",
    (
        _JOB,
        Variable("namespace", "Namespace", 'label_values(podtune_trials{job="$job"}, namespace)', several=True),
        Variable(
            "experiment",
            "Experiment",
            'label_values(podtune_trials{job="$job",namespace=~"$namespace"}, experiment)',
            several=True,
        ),
    ),
    {
        "Now": [
            _number("Running trials", "", f'sum(podtune_trials{{{_EXPERIMENT},state="running"}})', width=6),
            _number(
                "Trials that wait",
                "For their turn, or a node.",
                f'sum(podtune_trials{{{_EXPERIMENT},state="pending"}})',
                width=6,
            ),
            _number(
                "Failed trials",
                "Of the experiments that there are.",
                f'sum(podtune_trials{{{_EXPERIMENT},state="error"}})',
                width=6,
            ),
            _number(
                "Trials that can't store",
                "Their last checkpoints are only in their pods.",
                f"sum(podtune_trials_not_storing{{{_EXPERIMENT}}}) or vector(0)",
                width=6,
            ),
        ],
        "Trials": [
            Panel(
                "Trials by state",
                "terminated: at its own end, or stopped by the scheduler.",
                {"{{state}}": f"sum by (state) (podtune_trials{{{_EXPERIMENT}}})"},
                stacked=True,
                width=12,
            ),
            Panel(
                "Running trials by experiment",
                "",
                _by_experiment("podtune_trials", ',state="running"'),
                stacked=True,
                width=12,
            ),
            Panel(
                "Experiments by state",
                "",
                {"{{state}}": 'sum by (state) (podtune_experiments{job="$job",namespace=~"$namespace"})'},
                stacked=True,
            ),
            Panel(
                "Ends of attempts within an hour",
                "Of all experiments. infrastructure: its pod could not be run; disruption: it was taken; user, final "
                "and unusable: the program is to blame.",
                {"{{class}}": 'sum by (class) (increase(podtune_attempts_total{job="$job"}[1h]))'},
                stacked=True,
            ),
            Panel(
                "Results passed over within an hour",
                "They lacked a metric, and objective.missing is lenient.",
                {
                    "{{namespace}}/{{experiment}}": "sum by (namespace, experiment) "
                    f"(increase(podtune_results_passed_over_total{{{_EXPERIMENT}}}[1h]))"
                },
            ),
        ],
        "What is wrong": [
            Panel(
                "Problems",
                "Conditions by which an experiment says so, with the reason.",
                {"": f"podtune_experiment_problems{{{_EXPERIMENT}}}"},
                kind=PanelKind.TABLE,
                width=12,
            ),
            Panel(
                "Jobs in buckets that are not done",
                "Waiting: failed, to be tried again.",
                {"": f"podtune_storage_jobs{{{_EXPERIMENT}}}"},
                kind=PanelKind.TABLE,
                width=12,
            ),
            Panel(
                "Trials that can't store",
                "What they have trained since their last checkpoint is lost if their pods end now.",
                _by_experiment("podtune_trials_not_storing"),
                width=12,
            ),
            Panel(
                "Avoided nodes",
                "They have failed too many trials of an experiment.",
                _by_experiment("podtune_avoided_nodes"),
                width=12,
            ),
        ],
    },
)
DASHBOARDS = (OPERATIONS, EXPERIMENTS)


def build_files() -> dict[Path, str]:
    """Each dashboard for the chart, and for who reads the documentation, by its path."""
    folders = (ROOT / "charts" / "podtune" / "monitoring" / "dashboards", ROOT / "docs" / "grafana")
    return {folder / f"{board.uid}.json": board.format() for folder in folders for board in DASHBOARDS}
