"""The simulated experiments that the pictures show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podtune.api.names import DecisionKind
from podtune.api.resources.experiment import ExperimentSpec
from podtune.runner.records import Trial
from podtune.simulation.cluster import ClusterModel
from podtune.simulation.curves.functions import CURVE_FUNCTIONS
from podtune.simulation.curves.synthetic import SyntheticCurves
from podtune.simulation.simulation import Simulation
from podtune.simulation.trace import SimulationResult

SECONDS = 60.0
"""How long an epoch takes."""
EPOCHS = 27
BOX = (
    {"name": "x", "float": {"min": 0, "max": 1}},
    {"name": "y", "float": {"min": 0, "max": 1}},
)
"""Two parameters from end to end."""
LEARNING_RATE = (
    {"name": "lr", "float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"name": "decay", "float": {"min": 0, "max": 1}},
)
_MODEL = ClusterModel(pod_start=0, pod_stop=0, restore=0, checkpoint=0)
_ENDS = frozenset({DecisionKind.PAUSE, DecisionKind.STOP})


@dataclass(frozen=True, slots=True)
class AttemptBar:
    """An attempt on the time axis, in minutes.

    Attributes:
        reached: The epoch that it came to.
    """

    trial: int
    start: float
    end: float
    reached: int


def simulate(
    search: Mapping[str, Any],
    scheduler: Mapping[str, Any] | None = None,
    *,
    parameters: Sequence[Mapping[str, Any]] = LEARNING_RATE,
    function: str = "branin",
    epochs: int = EPOCHS,
    slots: int = 4,
    objective: Mapping[str, Any] | None = None,
) -> SimulationResult:
    """Runs an experiment in virtual time.

    Args:
        search: `spec.search`, with its seed.
        scheduler: `spec.scheduler`; without one, all trials run to their end.
        parameters: The search space.
        function: What training comes to, of those of `podtune simulate`.
        epochs: How long a whole training is; with 1, the function itself is what a trial reports.
        slots: How many trials run at once.
        objective: `spec.objective`; a loss by default.
    """
    spec = ExperimentSpec.model_validate(
        {
            "objective": objective or {"metric": "loss", "mode": "min"},
            "parameters": list(parameters),
            "search": search,
            "scheduler": scheduler or {"fifo": {}},
            "maxConcurrentTrials": slots,
            "checkpoints": {"store": {"bucket": "simulated"}},
            "trialTemplate": {"spec": {"containers": [{"name": "trial", "image": "simulated"}]}},
        }
    )
    curves = SyntheticCurves(
        CURVE_FUNCTIONS[function],
        spec.parameters,
        spec.objective,
        iterations=epochs,
        seconds=SECONDS,
        seed=spec.search.seed,
    )
    return Simulation(spec, curves, _MODEL, name="t", seed=1).run()


def read_curve(trial: Trial) -> list[tuple[int, float]]:
    """What a trial has reported: the objective after each epoch."""
    curve = trial.status.curve
    return [] if curve is None else [(int(point[0]), point[2]) for point in curve.list_points()]


def read_point(trial: Trial, names: Sequence[str] = ("x", "y")) -> tuple[float, float]:
    """A trial's two parameters."""
    first, second = (float(trial.spec.parameters[name]) for name in names)
    return first, second


def read_value(trial: Trial) -> float:
    """The last value of the objective."""
    return read_curve(trial)[-1][1]


def list_attempts(outcome: SimulationResult) -> Iterator[AttemptBar]:
    """When which trial ran, and how far it came."""
    starts = {tuple(map(int, start.pod.split("-")[1:])): start.seconds for start in outcome.starts}
    for decided in outcome.decisions:
        trial, entry = int(decided.trial.split("-")[1]), decided.entry
        begun = starts.pop((trial, entry.attempt), None) if entry.action in _ENDS else None
        if begun is not None:
            yield AttemptBar(trial, begun / 60, decided.seconds / 60, entry.step or 0)
