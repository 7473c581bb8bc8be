"""`podtune doctor`: what is wrong with an installation, and the remedy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from podtune.api.names import USUAL_HOME
from podtune.cli.client import api_client
from podtune.cli.client.api_client import DatedApi
from podtune.cli.client.store_access import StoreOptions
from podtune.cli.commands.doctor import authors, evidence, installation, namespace, rights
from podtune.cli.commands.doctor.findings import Diagnosis, Health, InstallationCheck, Patient, run_check
from podtune.cli.completion import complete_experiments
from podtune.cli.errors import ExitStatus
from podtune.cli.options import (
    Context,
    ForPrograms,
    Kubeconfig,
    Namespace,
    OwnCredentials,
    StoreEndpoint,
    StoreRegion,
    read_experiment_name,
)
from podtune.cli.output import print_facts, print_lines, print_note

DOCTOR_CHECKS: Mapping[str, InstallationCheck] = {
    "clocks": installation.check_clocks,
    "definitions": installation.check_definitions,
    "operator": installation.check_operator,
    "leader": installation.check_leader,
    "results service": installation.check_results_service,
    "DNS": installation.check_dns,
    "operator's rights": rights.check_operator_rights,
    "your rights": rights.check_caller_rights,
    "authors' rights": authors.check_authors,
    "store": namespace.check_stores,
    "images": namespace.check_images,
    "quota": namespace.check_quotas,
    "agents": evidence.check_agents,
    "Events of pods": evidence.check_pod_events,
}
_MARKS = {Health.FINE: "ok     ", Health.WRONG: "PROBLEM", Health.UNKNOWN: "?      "}


def doctor(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="[EXPERIMENT]",
            help="Whose store is looked at; else all of the namespace.",
            callback=read_experiment_name,
            autocompletion=complete_experiments,
        ),
    ] = "",
    *,
    operator_namespace: Annotated[
        str, typer.Option("--operator-namespace", metavar="NAMESPACE", help="Where the operator is installed.")
    ] = USUAL_HOME,
    output: ForPrograms = None,
    endpoint: StoreEndpoint = "",
    region: StoreRegion = "",
    own_credentials: OwnCredentials = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Say what is wrong with the installation, and the remedy; the exit code is 1 if anything is.

    What you may not see, or what can't be seen from here, is said to be unknown.
    """
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    there = api.read_date() if isinstance(api, DatedApi) else None
    options = StoreOptions(endpoint.rstrip("/"), region, own_credentials)
    patient = Patient(api, chosen, operator_namespace, experiment, options, datetime.now(UTC), there)
    findings: list[Diagnosis] = []
    for finding in examine(patient):
        findings.append(finding)
        if output is None:
            print_lines([f"{_MARKS[finding.state]}  {finding.subject}: {finding.words}"])
    problems = sum(finding.state is Health.WRONG for finding in findings)
    if output is not None:
        print_facts({"healthy": not problems, "items": [_collect(finding) for finding in findings]}, output)
    else:
        print_note(_sum_up(problems, findings))
    if problems:
        raise typer.Exit(ExitStatus.FAILED)


def examine(patient: Patient) -> Iterator[Diagnosis]:
    """Runs all checks.

    Raises:
        CliError: The Experiment that is asked about does not exist.
        ApiError: The API server does not answer.
    """
    for subject, check in DOCTOR_CHECKS.items():
        yield from run_check(subject, check, patient)


def _sum_up(problems: int, findings: Sequence[Diagnosis]) -> str:
    if problems:
        return f"{problems} {'problem' if problems == 1 else 'problems'}"
    unknown = sum(finding.state is Health.UNKNOWN for finding in findings)
    return "all is well" + (f", as far as can be seen: {unknown} unknown" if unknown else "")


def _collect(finding: Diagnosis) -> dict[str, Any]:
    return {"subject": finding.subject, "state": str(finding.state), "message": finding.words}
