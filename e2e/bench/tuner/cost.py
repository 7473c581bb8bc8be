"""What tuning itself costs: trials a second, memory a trial, and the time of a proposal as trials become many."""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import optuna
from optuna.trial import create_trial

from e2e.bench.tuner.problems import Problem, spec
from e2e.bench.tuner.searching import distributions, new_searcher, new_study
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from podtune.tuning.searchers.base import Observation, Searcher

AT_ONCE = 100
"""No-op trials that run at the same time, wherever they run."""
DIMENSIONS = 10
ALGORITHMS = ("random", "tpe", "cmaes", "nsga2", "gp")
WITHOUT_OPTUNA = ("gp",)
"""Optuna's Gaussian process can't be asked among 10,000 trials; ours models the same number of them in the end."""
POPULATIONS = {"cmaes": 10, "nsga2": 50}
"""Trials of a generation, by default and in so many dimensions."""
TOLERANCE = 1.15
"""Growth of a proposal's cost may be this many times Optuna's own: timings vary by as much."""
NOISE_MS = 0.5
VARIATION = 0.25
"""What a timing may be off by, in milliseconds and as a share of it."""


@dataclass(frozen=True)
class Engine:
    """An experiment of no-op trials, end to end.

    Attributes:
        seconds: From the first proposal to the last status.
        processor_seconds: How long a processor was busy with it meanwhile.
        bytes_a_trial: How much memory each trial has added.
    """

    trials: int
    seconds: float
    processor_seconds: float
    bytes_a_trial: float

    @property
    def rate(self) -> float:
        """Trials a second."""
        return self.trials / self.seconds


@dataclass(frozen=True)
class Asking:
    """Processor time of a proposal, in milliseconds, after so many finished trials; none of Optuna's where it can't."""

    algorithm: str
    finished: Sequence[int]
    ours: Sequence[float]
    optunas: Sequence[float]

    @property
    def grows_no_faster(self) -> bool:
        """Whether Podtune's proposals slow down no faster than Optuna's own."""
        mine = self.ours[-1] - self.ours[0]
        theirs = self.optunas[-1] - self.optunas[0] if self.optunas else 0.0
        return mine <= max(theirs, 0.0) * TOLERANCE + NOISE_MS + VARIATION * self.ours[0]


def run_engine(trials: int) -> Engine:
    """Simulates an experiment of no-op trials with random search, from the first proposal to the last status."""
    space = [{"name": "x", "float": {"min": 0, "max": 1}}]
    search = {"algorithm": "random", "maxTrials": trials, "seed": 1}
    experiment = spec(space, search=search, maxConcurrentTrials=AT_ONCE)
    curves = SyntheticCurves(
        CURVE_FUNCTIONS["sphere"], experiment.parameters, experiment.objective, iterations=1, seconds=60, seed=1
    )
    gc.collect()
    before = _resident_bytes()
    simulation = Simulation(experiment, curves, seed=1)
    began, busy = time.perf_counter(), time.process_time()
    outcome = simulation.run()
    seconds, processor_seconds = time.perf_counter() - began, time.process_time() - busy
    used = _resident_bytes() - before
    if outcome.status.trials.terminated != trials:
        raise RuntimeError(f"of {trials} trials {outcome.status.trials}")
    return Engine(trials, seconds, processor_seconds, used / trials)


def time_proposals(algorithm: str, finished: Sequence[int], asks: int) -> Asking:
    """Times proposals of Podtune and of Optuna alone, who know the same finished trials."""
    problem = _problem()
    searcher = new_searcher(problem, algorithm, 0, max(finished) * 2)
    study = None if algorithm in WITHOUT_OPTUNA else new_study(algorithm, 0)
    space = distributions(problem)
    known = _Known(problem, POPULATIONS.get(algorithm, 1))
    ours, optunas = [], []
    for count in finished:
        known.tell_up_to(count, searcher, study)
        ours.append(_milliseconds(partial(_ask, searcher, count), asks))
        if study is not None:
            optunas.append(_milliseconds(lambda _: study.ask(space), asks))
    return Asking(algorithm, list(finished), ours, optunas)


def _ask(searcher: Searcher, finished: int, number: int) -> None:
    searcher.ask(finished + number, ())


class _Known:
    """Finished trials that both are told of, drawn at random.

    Optuna's CMA-ES and NSGA-II pass those over that they have not proposed themselves, so their figures are too low,
    if anything; ours are told of which generation each was.
    """

    def __init__(self, problem: Problem, population: int) -> None:
        self._problem = problem
        self._population = population
        self._space = distributions(problem)
        self._random = random.Random(0)
        self._count = 0

    def tell_up_to(self, count: int, searcher: Searcher, study: optuna.Study | None) -> None:
        while self._count < count:
            configuration = {name: self._random.random() for name in self._space}
            value = self._problem.value(configuration)
            attributes = {"generation": str(self._count // self._population)}
            searcher.tell(Observation(self._count, configuration, value, 1, attributes=attributes))
            if study is not None:
                study.add_trial(create_trial(params=configuration, distributions=self._space, value=value))
            self._count += 1


def _problem() -> Problem:
    sphere = CURVE_FUNCTIONS["sphere"]
    names = [f"x{place}" for place in range(DIMENSIONS)]
    return Problem(
        name="sphere",
        parameters=[{"name": name, "float": {"min": 0, "max": 1}} for name in names],
        value=lambda configuration: sphere.evaluate([float(configuration[name]) for name in names]),
        optimum=0.0,
    )


def _milliseconds(ask: Callable[[int], object], asks: int) -> float:
    """The median processor time of a proposal: whoever else uses the machine is no part of it."""
    times = []
    for number in range(asks):
        began = time.process_time()
        ask(number)
        times.append(time.process_time() - began)
    return 1000 * statistics.median(times)


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
