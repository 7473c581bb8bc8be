"""HyperBand for BOHB."""

from __future__ import annotations

from typing import ClassVar

from typing_extensions import override

from podtune.tuning.schedulers.hyperband import BracketId, Hyperband


class Bohb(Hyperband):
    """HyperBand with the largest brackets first.

    It goes with `search.algorithm: bohb`, which learns from the values at its rungs.

    Example:
        scheduler:
          bohb: {maxTime: 81, reductionFactor: 3}
        search: {algorithm: bohb, maxTrials: 200, seed: 7}

    Settings:
        timeAttribute: The metric that measures a trial's progress, such as `epoch`. It must never decrease.
        maxTime: No trial runs beyond this.
        reductionFactor: One in this many of the trials at a rung continues. Together with `maxTime` it determines the
            number and sizes of brackets: 81 and 3 make five, of 5 to 81 trials.

    Falkner et al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale", ICML 2018,
    https://arxiv.org/abs/1807.01774, as Ray Tune 2.60 implements it in `HyperBandForBOHB`: HyperBand, but

    - the largest brackets, whose many trials run shortest, are filled first, so that a model has something to learn
      from;
    - brackets are served in their order, however far they are.

    A decision at a rung carries its milestone: the search is told of the value there, not only of the trial's last one.
    Where Ray lets a bracket that isn't full go on as soon as nothing runs at all, this one does when the search is
    over. What else is said of HyperBand in `hyperband` holds here too.
    """

    key: ClassVar[str] = "bohb"

    @override
    def _count_rungs(self, position: int) -> int:
        return self._settings.sizes - 1 - position

    @override
    def _build_priority(self, bracket_id: BracketId) -> tuple[float, ...]:
        return bracket_id
