"""What the names of metrics tell: which is optimised, in which direction, and which is a time of training.

These are guesses for a manifest that a person looks at before it is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from podtune.protocol.messages import MetricValue
from podtune.trial.layout import ITERATION

Mode = Literal["max", "min"]
_WORD = re.compile(r"[a-z]+\d*|\d+")
_OBJECTIVE = re.compile(r"[^\s=]{1,128}")
"""Names that `objective.metric` takes."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MAXIMISED = frozenset(
    """
    acc acc1 acc5 accuracy auc auprc auroc bleu correct dice f1 fscore iou map map50 miou mrr ndcg precision psnr r2
    recall return reward rouge1 rouge2 rougel score ssim success top1 top5
    """.split()  # noqa: SIM905
)
_MINIMISED = frozenset(
    """
    bpb cer deviance entropy err error fid kl l1 l2 logloss loss mae mape mse nll perplexity ppl rmse rmsle wer
    """.split()  # noqa: SIM905
)
_EVALUATED = frozenset({"cv", "dev", "eval", "evaluation", "holdout", "test", "val", "valid", "validation"})
_TRAINED = frozenset({"batch", "running", "train", "training"})
_SUMMED_UP = frozenset({"best", "final"})
"""Of metrics that say how good it was at most: they show no progress."""
_TIMES = ("step", "epoch", "iteration", "iter", "round", "update", "episode", "batch")
"""What the names of counts of training end with; those of short steps first."""
_BESIDES = frozenset(
    """
    cpu data elapsed eta gpu hour hours lr mem memory min ms rate remaining runtime sec second seconds speed time total
    """.split()  # noqa: SIM905
)
"""Words of what is reported beside metrics."""


@dataclass(frozen=True, slots=True)
class SuggestedObjective:
    """What to optimise.

    Attributes:
        metric: Its name.
        mode: The direction.
        is_guess: Whether the name says nothing of the direction, so that the values were looked at.
    """

    metric: str
    mode: Mode
    is_guess: bool


def suggest_objective(results: Sequence[Mapping[str, MetricValue]], wanted: str = "") -> SuggestedObjective | None:
    """Suggests what to optimise: what is wanted, or what looks most like it; None where there is no such number."""
    names = list(dict.fromkeys(name for result in results for name in result))
    numbers = {name: _read_numbers(results, name) for name in names}
    metric = choose_objective((name for name in names if numbers[name]), wanted)
    if metric is None:
        return None
    known = find_mode(metric)
    falls = numbers[metric][-1] < numbers[metric][0]
    return SuggestedObjective(metric, known or ("min" if falls else "max"), known is None)


def choose_objective(names: Iterable[str], wanted: str = "") -> str | None:
    """The name that looks most like an objective's; the wanted one where it is there, and none instead of it."""
    if wanted:
        return wanted if wanted in names else None
    usable = [name for name in names if not is_time(name) and _OBJECTIVE.fullmatch(name)]
    return max(usable, key=rank_objective, default=None)


def rank_objective(name: str) -> int:
    """How much a name looks like an objective's: evaluated rather than trained, known rather than not."""
    words = set(_split(name))
    if find_mode(name) is None:
        return -1 if words & _BESIDES else int(bool(words & _EVALUATED))
    rank = 5 if words & _MAXIMISED else 4
    rank += 4 * bool(words & _EVALUATED)
    return rank - 2 * bool(words & _TRAINED) - 2 * bool(words & _SUMMED_UP)


def find_mode(name: str) -> Mode | None:
    """Whether a metric of this name is maximised or minimised; None where the name says nothing."""
    for word in reversed(_split(name)):
        if word in _MINIMISED:
            return "min"
        if word in _MAXIMISED:
            return "max"
    return None


def is_time(name: str) -> bool:
    """Whether a name is that of a count of training, such as epoch."""
    words = _split(name)
    return bool(words) and words[-1].rstrip("s") in _TIMES and find_mode(name) is None and "total" not in words


def is_beside(name: str) -> bool:
    """Whether a name is that of what is printed beside metrics, such as a speed."""
    return find_mode(name) is None and not is_time(name) and bool(set(_split(name)) & _BESIDES)


def suggest_time_attribute(results: Sequence[Mapping[str, MetricValue]]) -> str:
    """The metric that schedulers may go by: each result has it, and it rises from 1; else what the agent counts."""
    names = [name for name in (results[0] if results else ()) if is_time(name)]
    rising = [name for name in names if _rises(results, name)]
    return min(rising, key=lambda name: _TIMES.index(_split(name)[-1].rstrip("s")), default=ITERATION)


def _rises(results: Sequence[Mapping[str, MetricValue]], name: str) -> bool:
    numbers = _read_numbers(results, name)
    rises = all(later > earlier for earlier, later in pairwise(numbers))
    return len(numbers) == len(results) and rises and numbers[0] > 0  # at 0, nothing is trained yet for a scheduler


def _read_numbers(results: Sequence[Mapping[str, MetricValue]], name: str) -> list[float]:
    values = (result.get(name) for result in results)
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return [number for number in numbers if math.isfinite(number)]


def _split(name: str) -> list[str]:
    """The words of a name, in lower case."""
    return _WORD.findall(_CAMEL.sub("_", name).lower())
