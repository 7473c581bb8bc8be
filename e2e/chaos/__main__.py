"""`make chaos`: some hundred faults, one at a time for each experiment, and what must hold after each of them.

python -m e2e.chaos [--seed N] [--every N] [--only ID …] [--json FILE] [--list]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from e2e.chaos import figures
from e2e.chaos.api import Api
from e2e.chaos.campaign import UNDISTURBED, Campaign, only, problems, sample
from e2e.chaos.groups.catalog import groups
from e2e.chaos.groups.group import Group
from e2e.chaos.leftovers import remove_leftovers
from e2e.chaos.preparation import prepared, uninterrupted
from e2e.chaos.testbed import PerturbationResult


def main() -> int:
    """Runs the campaign; returns the exit code."""
    options = _parser().parse_args()
    chosen = sample(groups(), options.every)
    if options.only:
        chosen = only(groups(), options.only)
        if not chosen:
            print(f"error: no perturbation is called {' or '.join(options.only)}; see --list", file=sys.stderr)
            return 2
    if options.list:
        for group in chosen:
            for perturbation in group.perturbations:
                print(group.name, perturbation.id)
        return 0
    # One way to end it, also where a shell has started it in the background and has it ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        with prepared():
            return asyncio.run(_run(chosen, options))
    except KeyboardInterrupt:
        print("interrupted; no figures were written", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description="Faults, and what must hold.")
    parser.add_argument("--seed", type=int, default=1, help="from which all seeds follow")
    parser.add_argument("--every", type=int, default=1, help="run every so many of the perturbations")
    parser.add_argument("--only", nargs="*", default=[], metavar="ID", help="those whose ids begin so, or groups")
    parser.add_argument("--list", action="store_true", help="name them, and run none")
    parser.add_argument("--json", type=Path, help="where to write the figures; with --only, they are added to it")
    parser.add_argument("--logs", type=Path, default=Path("/tmp/podtune-chaos"), help="where the operators' logs go")
    return parser


async def _run(chosen: tuple[Group, ...], options: argparse.Namespace) -> int:
    api = Api(Path(os.environ["KUBECONFIG"]))
    await api.open()
    campaign = Campaign(api, options.logs / str(os.getpid()), options.seed, _tell)
    begun = time.monotonic()
    try:
        await remove_leftovers(api)
        await campaign.run(chosen)
    finally:
        with uninterrupted():
            await remove_leftovers(api)
            await api.close()
    seconds = time.monotonic() - begun
    if options.json is not None:
        _record(options.json, campaign, chosen, seconds, options)
    return _summarize(campaign, chosen, seconds, options.seed)


def _record(
    path: Path, campaign: Campaign, chosen: tuple[Group, ...], seconds: float, options: argparse.Namespace
) -> None:
    found = figures.figures(campaign.results, campaign.recoveries, seed=options.seed, seconds=seconds)
    if options.only and path.exists():
        ran = {perturbation.id for group in chosen for perturbation in group.perturbations}
        found = figures.merged(json.loads(path.read_text()), found, ran)
    figures.write(path, found)


def _summarize(campaign: Campaign, chosen: tuple[Group, ...], seconds: float, seed: int) -> int:
    """Says what came of it; returns the exit code."""
    bad = problems(campaign.results)
    count = sum(len(group.perturbations) for group in chosen)
    struck = sum(v.struck for name, found in campaign.results.items() if name != UNDISTURBED for v in found)
    print(f"{count} perturbations, {struck} struck, {len(bad)} broke an invariant; {seconds:.0f} s, seed {seed}")
    for result in bad:
        print(f"  python -m e2e.chaos --seed {seed} --only {result.perturbation.id}")
    if campaign.recoveries:
        slowest = max(campaign.recoveries)
        print(f"operator deaths: {len(campaign.recoveries)}; leading again after {slowest:.1f} s at most")
    return 1 if bad else 0


def _tell(group: str, result: PerturbationResult) -> None:
    word = "BROKEN" if result.problems else "ok" if result.struck or group == UNDISTURBED else "no strike"
    print(f"{word:9} {group:11} {result.perturbation.id} seed={result.seed} {result.seconds:.1f} s", flush=True)
    for problem in result.problems:
        print(f"          {problem}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
