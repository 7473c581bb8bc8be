"""`podtune detect`: runs a script for a moment, and says how its results can be read without changing it."""

from __future__ import annotations

import os
import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podtune.cli.errors import CliError, ExitStatus
from podtune.cli.options import WideFormat, read_duration_option
from podtune.cli.output import CommandAnswer, print_answer, print_note
from podtune.cli.views.columns import RankedColumn, render_columns, wrap_line
from podtune.cli.views.numbers import format_count, format_number

if TYPE_CHECKING:
    from podtune.local.detection.detected_sources import DetectedSource
    from podtune.local.detection.detection import DetectionReport

_USUAL = "60s"
_SHOWN = 8
"""Metrics of each way that people are shown."""
_LONGEST_VALUE = 20
_REMEDY = "print metrics as name=value, or report them by podtune.trial.report or in $PODTUNE_DIR/results.jsonl"


def detect(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The script, as you run it.")],
    *,
    duration: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long it runs.",
            show_default=f"until there are three results of each kind, at most {_USUAL}",
        ),
    ] = "",
    metric: Annotated[
        str, typer.Option("--metric", help="The objective; else the metric that looks most like it.")
    ] = "",
    output: WideFormat = None,
) -> None:
    """Run a script here for a moment, and say how its results can be read without changing it.

    Prints what to write in the manifest. The exit code is 6 if the script reports nothing that can be read.
    """
    from podtune.local.detection.detection import detect_results  # noqa: PLC0415 - the help does without it
    from podtune.local.detection.watched_program import echo_to_stderr  # noqa: PLC0415

    seconds = read_duration_option(duration or _USUAL, "--for")
    print_note(f"runs for up to {duration or _USUAL}; Ctrl-C ends it: {shlex.join(command)}")
    with _heed_interrupts() as interrupted:
        try:
            report = detect_results(
                command,
                environ=os.environ,
                seconds=seconds,
                may_end_early=not duration,
                wanted=metric,
                echo=echo_to_stderr,
                is_interrupted=interrupted.is_set,
            )
        except OSError as error:
            words = error.strerror or error
            raise CliError(f"{error.filename or command[0]}: {words}; write the command as you run it here") from error
    answer = CommandAnswer(
        lines=lambda width: render_report(report, width),
        facts=lambda: collect_report(report),
        wide=lambda: render_report(report, None),
    )
    print_answer(answer, output)
    raise typer.Exit(_conclude(report, metric))


@contextmanager
def _heed_interrupts() -> Iterator[threading.Event]:
    """Ctrl-C, SIGTERM and the end of the terminal set an event, and nothing else: the script must not outlive us."""
    interrupted = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, lambda *_: interrupted.set()) for number in signals}
    try:
        yield interrupted
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _conclude(report: DetectionReport, metric: str) -> ExitStatus:
    """Says what stands in the way, if anything does; returns the exit code."""
    failed = bool(report.exit_code) and not report.interrupted
    if failed:
        print_note(f"note: the script has failed with exit code {report.exit_code}: {report.last_line}")
    if report.interrupted:
        return ExitStatus.INTERRUPTED
    if report.sources:
        return ExitStatus.DONE
    if failed:
        return ExitStatus.FAILED
    looked_for = metric or "results"
    later = "" if report.exit_code == 0 else ", or let it run longer by --for"
    print_note(f"no {looked_for} found within {report.seconds:.0f}s; {_REMEDY}{later}")
    return ExitStatus.NOTHING_FOUND


def collect_report(report: DetectionReport) -> dict[str, Any]:
    """The report for programs."""
    best = next(iter(report.sources), None)
    return {
        "seconds": round(report.seconds, 1),
        "exitCode": report.exit_code,
        "best": None if best is None else best.path,
        "sources": [_collect(source) for source in report.sources],
    }


def _collect(source: DetectedSource) -> dict[str, Any]:
    return {
        "source": source.path,
        "results": len(source.results),
        "spec": source.spec,
        "modeIsGuess": source.objective.is_guess,
        "timeAttribute": source.time_attribute,
        "metrics": [
            {"name": metric.name, "results": metric.count, "first": metric.first, "last": metric.last}
            for metric in source.list_metrics()
        ],
    }


def render_report(report: DetectionReport, width: int | None) -> list[str]:
    """The report for people: what was seen, and what to write for the way that looks best."""
    if not report.sources:
        return []
    best = report.sources[0]
    return [*_render_metrics(report.sources, width), "", *_render_advice(best, width), "", *_render_manifest(best)]


def _render_metrics(sources: Sequence[DetectedSource], width: int | None) -> list[str]:
    seen = [(source, metric) for source in sources for metric in list(source.list_metrics())[:_SHOWN]]
    columns = [
        RankedColumn("READ FROM", [source.path for source, _ in seen]),
        RankedColumn("METRIC", [metric.name for _, metric in seen]),
        RankedColumn("RESULTS", [str(metric.count) for _, metric in seen], 2, is_number=True),
        RankedColumn("FIRST", [_format(metric.first) for _, metric in seen], 1, is_number=True),
        RankedColumn("LAST", [_format(metric.last) for _, metric in seen], 3, is_number=True),
    ]
    lines = render_columns(columns, width)
    for source in sources:
        further = len(list(source.list_metrics())) - _SHOWN
        if further > 0:
            lines += wrap_line(f"({source.path} has {format_count(further, 'further metric')}; -o json has all)", width)
    return lines


def _format(value: object) -> str:
    return format_number(str(value))[:_LONGEST_VALUE]


def _render_advice(best: DetectedSource, width: int | None) -> list[str]:
    what = f"{best.path} looks best. Write this in the manifest"
    guess = f", and check mode: the name {best.objective.metric} does not tell it" if best.objective.is_guess else ""
    return wrap_line(f"{what}{guess}. For a scheduler, add timeAttribute: {best.time_attribute}", width)


def _render_manifest(best: DetectedSource) -> list[str]:
    """Lines to paste, however long they are."""
    import yaml  # noqa: PLC0415 - the help does without it

    written: str = yaml.safe_dump(best.spec, sort_keys=False, allow_unicode=True, width=10_000)
    return written.splitlines()
