"""`make bench` runs this too: no cluster is needed.

python -m e2e.bench.tuner [quality] [schedulers] [cost] [--seeds 30] [--json FILE]

What it finds is compared with e2e/bench/figures/tuner.json, the figures that were committed last. To commit new ones,
have them written there; parts that were not run stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.bench.figures import Found, make_table, run_parts
from e2e.bench.tuner import cost, quality, scheduling
from e2e.bench.tuner.environments import Environment, Missing
from e2e.bench.tuner.figures import COMMITTED, headlines
from e2e.bench.tuner.problems import NAMES

FINISHED = (1_000, 10_000)
"""Numbers of finished trials at which proposals are timed."""
RAY_SECONDS = 240
"""Time that Ray Tune gets for its trials; there are figures of those that it manages."""
CONSOLE = Console(width=None if sys.stdout.isatty() else 130, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmarks; 1 where a promise is not held."""
    options = _parser().parse_args(arguments)
    parts = {part: partial(PARTS[part], options) for part in options.parts or PARTS}
    return run_parts(parts, CONSOLE, committed=COMMITTED, headlines=headlines, file=options.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench.tuner", description="The tuner beside others.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; all when none is named")
    parser.add_argument("--seeds", type=int, default=30, help="paired seeds of each comparison")
    parser.add_argument("--algorithms", nargs="*", choices=quality.BUDGETS, default=list(quality.BUDGETS))
    parser.add_argument("--problems", nargs="*", choices=NAMES, default=list(NAMES))
    parser.add_argument("--trials", type=int, default=10_000, help="no-op trials of the engine and of Syne Tune")
    parser.add_argument("--ray-trials", type=int, default=200, help="no-op trials of Ray Tune; 0 for none")
    parser.add_argument("--asks", type=int, default=15, help="proposals whose median time is taken")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    return parser


def _quality(options: argparse.Namespace) -> Found:
    pairings = quality.compare(options.algorithms, options.problems, options.seeds)
    lost = quality.losses(pairings)
    title = f"The best value found, {options.seeds} paired seeds; p: chance of such a loss where there is none"
    table = make_table(title, "problem", "algorithm", "trials", "Podtune", "Optuna", "better : worse", "p", "")
    for pairing in pairings:
        (ours, theirs), (wins, defeats) = pairing.medians, pairing.wins
        verdict = "lost" if pairing in lost else ""
        row = [pairing.problem, pairing.algorithm, str(pairing.budget), f"{ours:.5g}", f"{theirs:.5g}"]
        table.add_row(*row, f"{wins} : {defeats}", f"{pairing.p:.3f}", verdict)
    CONSOLE.print(table)
    problems = [f"{pairing.algorithm} on {pairing.problem} finds less than Optuna alone" for pairing in lost]
    return [asdict(pairing) for pairing in pairings], problems


def _schedulers(options: argparse.Namespace) -> Found:
    regrets = scheduling.compare(options.seeds)
    title = (
        f"Regret over virtual time on {scheduling.GPUS} GPUs, in percent of accuracy: median of {options.seeds} seeds"
    )
    table = make_table(title, "", *(f"{hours:g} h" for hours in scheduling.HOURS), "trials")
    for regret in regrets:
        cells = (f"{100 * median:.2f}" for median in regret.medians)
        table.add_row(regret.name, *cells, f"{regret.trials:.0f}")
    CONSOLE.print(table)
    return {"hours": scheduling.HOURS, "contenders": [asdict(regret) for regret in regrets]}, []


def _cost(options: argparse.Namespace) -> Found:
    engine = cost.run_engine(options.trials)
    others = {
        "Syne Tune, simulated": _other("bench-syne-tune.txt", "with_syne_tune", options.trials, cost.AT_ONCE),
        "Ray Tune": _other("replay.txt", "with_ray", options.ray_trials, RAY_SECONDS) if options.ray_trials else None,
    }
    title = f"No-op trials with random search, {cost.AT_ONCE} at once"
    table = make_table(title, "", "trials", "seconds", "trials a second", "processor ms a trial")
    for name, run in {"Podtune, simulated": asdict(engine), **others}.items():
        if run is not None:
            rate, busy = run["trials"] / run["seconds"], run.get("processor_seconds")
            cells = [str(run["trials"]), f"{run['seconds']:.1f}", f"{rate:.2f}"]
            table.add_row(name, *cells, "-" if busy is None else f"{1000 * busy / run['trials']:.2f}")
    CONSOLE.print(table)
    CONSOLE.print(f"memory a trial: {engine.bytes_a_trial / 1000:.1f} kB\n")
    askings = [cost.time_proposals(algorithm, FINISHED, options.asks) for algorithm in cost.ALGORITHMS]
    CONSOLE.print(_asking_table(askings))
    broken = [
        f"proposals of {each.algorithm} slow down faster than Optuna's" for each in askings if not each.grows_no_faster
    ]
    found = {"engine": asdict(engine), "others": others, "proposals": [asdict(asking) for asking in askings]}
    return found, broken


def _other(requirements: str, module: str, *arguments: int) -> Any:
    """The figures of another tuner; None, and why, where it can't be had."""
    try:
        return Environment(requirements).run(f"e2e.bench.tuner.{module}", *map(str, arguments))
    except Missing as missing:
        CONSOLE.print(f"not measured: {missing}")
        return None


def _asking_table(askings: Sequence[cost.Asking]) -> Table:
    names = [f"{who}, {count:,}" for count in FINISHED for who in ("Podtune", "Optuna")]
    table = make_table("Processor time of a proposal after so many finished trials, ms", "algorithm", *names)
    for asking in askings:
        cells = []
        for place in range(len(FINISHED)):
            cells.append(f"{asking.ours[place]:.2f}")
            cells.append(f"{asking.optunas[place]:.2f}" if asking.optunas else "-")
        table.add_row(asking.algorithm, *cells)
    return table


PARTS: dict[str, Callable[[argparse.Namespace], Found]] = {
    "quality": _quality,
    "schedulers": _schedulers,
    "cost": _cost,
}

if __name__ == "__main__":
    sys.exit(main())
