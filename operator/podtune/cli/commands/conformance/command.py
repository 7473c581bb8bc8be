"""`podtune conformance`: the failures that an installation has to survive, brought about on the user's own cluster."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from podtune.cli.client import api_client
from podtune.cli.client.api_client import Api
from podtune.cli.commands.conformance.catalog import CHECKS
from podtune.cli.commands.conformance.checks import ConformanceCheck, Need, Rig
from podtune.cli.commands.conformance.progress import LiveProgress, RunListener, WrittenProgress
from podtune.cli.commands.conformance.report import RunReport, collect_checks, list_checks, write_junit
from podtune.cli.commands.conformance.running import CheckClock, CheckReport, CheckState, carry_out_check, remove_made
from podtune.cli.commands.conformance.site import (
    InstalledOperator,
    find_operator,
    may_delete_operator_pods,
    open_namespace,
    require_rights,
)
from podtune.cli.commands.conformance.stores import FoundStore, StoreChoice, copy_secrets, find_store
from podtune.cli.errors import ExitStatus
from podtune.cli.options import (
    Context,
    ForPrograms,
    Kubeconfig,
    Namespace,
    StoreRegion,
    read_duration_option,
)
from podtune.cli.output import CommandAnswer, print_answer, print_facts, print_lines, print_note
from podtune.kube import paths
from podtune.kube.errors import ApiError

_NAME_WIDTH = max(len(check.name) for check in CHECKS)
_HOME = "podtune-system"


def conformance(
    *,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="This check alone; may be given several times.")
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="CHECK", help="Not this one; may be given several times.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say what is checked, and check nothing.")] = False,
    store: Annotated[
        str,
        typer.Option(
            "--store", metavar="URI", help="Where checkpoints go, s3://bucket/prefix; else to the chart's S3 server."
        ),
    ] = "",
    endpoint: Annotated[
        str, typer.Option("--endpoint", metavar="URL", help="The store's server, as pods reach it; else AWS.")
    ] = "",
    region: StoreRegion = "",
    secret: Annotated[
        str, typer.Option("--secret", metavar="[NAMESPACE/]NAME", help="Secret with the store's keys, to be copied.")
    ] = "",
    run_in: Annotated[
        str, typer.Option("--run-in", metavar="NAMESPACE", help="The namespace that is made for the checks.")
    ] = "podtune-conformance",
    keep: Annotated[bool, typer.Option("--keep", help="Leave that namespace, and all in it, to look at.")] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="For each check; else the check's own.")
    ] = "",
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write the report as JUnit's XML, too.")
    ] = None,
    operator_namespace: Annotated[
        str, typer.Option("--operator-namespace", metavar="NAMESPACE", help="Where the operator is installed.")
    ] = _HOME,
    agent_image: Annotated[
        str, typer.Option("--agent-image", metavar="IMAGE", help="What all pods of checks run; else the agent's image.")
    ] = "",
    output: ForPrograms = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Bring failures about on your cluster, and say whether Podtune survives each; the exit code is 1 if not.

    Each check is a small Experiment in a namespace of its own: its program crashes, its pod is evicted or lost, the
    operator is killed, the store is away, a trial is paused, or a quota is full. All is removed at the end.
    """
    checks = _choose_checks(only or (), without or (), timeout)
    if listed:
        answer = CommandAnswer(lambda width: list_checks(checks, width), lambda: collect_checks(checks))
        print_answer(answer, output)
        return
    if junit is not None and not junit.parent.is_dir():
        raise typer.BadParameter(f"--junit: there is no directory {junit.parent}; make it, or name another file")
    api, chosen = api_client.open_api(kubeconfig, context, namespace)
    home, _, name = secret.rpartition("/")
    choice = StoreChoice(store, endpoint.rstrip("/"), region, name, home or chosen)
    operator = find_operator(api, operator_namespace, agent_image)
    require_rights(api, run_in)
    found = find_store(api, operator_namespace, choice)
    run = RunReport(operator, _read_version(api), run_in, datetime.now(UTC))
    plan = [(check, _find_lack(api, check, found, operator, without or ())) for check in checks]
    if output is None:
        print_note(run.heading)
    begun = time.monotonic()
    try:
        with _end_on_sigterm(), _choose_progress(quiet=output is not None) as progress:
            _run_all(api, run, plan, found, progress, keep=keep)
    finally:
        run.seconds = time.monotonic() - begun
        if junit is not None:
            write_junit(run, junit)
    if output is not None:
        print_facts(run.collect_facts(), output)
    else:
        print_note(run.summary)
    if run.count(CheckState.FAILED):
        raise typer.Exit(ExitStatus.FAILED)


def _choose_checks(only: Sequence[str], without: Sequence[str], timeout: str) -> list[ConformanceCheck]:
    """The checks that are asked for, with the time that each has; those that are left out are told of, too.

    Raises:
        typer.BadParameter: There is no check of a name, or the time is none.
    """
    known = [check.name for check in CHECKS]
    for name in (*only, *without):
        if name not in known:
            raise typer.BadParameter(f"there is no check {name!r}; there are {', '.join(known)}")
    limit = read_duration_option(timeout, "--timeout") if timeout else None
    chosen = [check for check in CHECKS if not only or check.name in only]
    return [replace(check, deadline=limit or check.deadline) for check in chosen]


def _read_version(api: Api) -> str:
    """The cluster's version; empty where it does not say."""
    try:
        return str(api.get(paths.SERVER_VERSION).get("gitVersion", ""))
    except ApiError:
        return ""


def _find_lack(
    api: Api, check: ConformanceCheck, found: FoundStore, operator: InstalledOperator, without: Sequence[str]
) -> str:
    """Why a check can't be run, and the remedy; empty where it can."""
    if check.name in without:
        return "left out by --without"
    if check.needs_store and found.store is None:
        return found.lack
    if Need.PLAIN_STORE in check.needs and found.store is not None and found.store.server is None:
        return (
            "the store's server is not reached over plain http, so nothing can be put between it and agents; to check "
            "this, let the chart install its own (embeddedS3), or name another --endpoint"
        )
    if Need.OPERATOR_PODS in check.needs and not may_delete_operator_pods(api, operator.home):
        return (
            f"you may not delete pods in namespace {operator.home}; have an administrator run this check, or leave it "
            f"out: --without {check.name}"
        )
    return ""


def _run_all(
    api: Api,
    run: RunReport,
    plan: Sequence[tuple[ConformanceCheck, str]],
    found: FoundStore,
    progress: RunListener,
    *,
    keep: bool,
) -> None:
    """Runs those checks of a plan that can be run, and adds to the report how each went."""
    clock = CheckClock(say=progress.say)
    todo = [check for check, lack in plan if not lack]
    names = [check.name for check in CHECKS]

    def conclude(report: CheckReport) -> None:
        run.reports.append(report)
        progress.end(report)

    for check, lack in plan:
        if lack:
            conclude(CheckReport(check, CheckState.SKIPPED, words=lack))
    if not todo:
        return
    progress.begin("namespace")
    with open_namespace(api, run.namespace, run.operator, names, clock, keep=keep) as announce:
        copy_secrets(api, run.namespace, found, run.operator.image, run.operator.home)
        for check in todo:
            announce(check.deadline)
            progress.begin(check.name)
            store = found.store if check.needs_store else None
            rig = Rig(api, run.namespace, run.operator.home, run.operator.image, check.name, check.environment, store)
            try:
                conclude(carry_out_check(check, rig, clock))
            finally:
                if not keep:
                    progress.begin("removal")
                    remove_made(check, rig, clock)


@contextmanager
def _choose_progress(*, quiet: bool) -> Iterator[RunListener]:
    """Who is told how the run goes: nobody where programs read the answer, which comes at the end."""
    if quiet:
        yield WrittenProgress(_NAME_WIDTH, lambda _: None)
    elif sys.stdout.isatty():
        with LiveProgress(Console(highlight=False), _NAME_WIDTH, time.monotonic).show() as progress:
            yield progress
    else:
        yield WrittenProgress(_NAME_WIDTH, lambda line: print_lines([line]))


@contextmanager
def _end_on_sigterm() -> Iterator[None]:
    """Has SIGTERM, by which CI systems cancel a job, end the run as Ctrl+C does: what was made is removed."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before: Any = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
