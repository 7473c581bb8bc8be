"""The release of a synchronous population's barrier: what was decided then, and how a record holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.tuning.configuration import ConfigurationRules
from podtune.api.tuning.search_space import ChoiceDomain, IntDomain, Parameter, Scalar, format_value
from podtune.tuning.schedulers.population.members import DonorState
from podtune.tuning.schedulers.records import decode_words, encode_words, format_shortest
from podtune.tuning.searchers.base import Configuration

SECTION = "opened"
"""Sections of a record that hold releases begin with this, their number after it."""
_ABSENT = "-"
_VERSION = "2"


@dataclass(frozen=True, slots=True)
class BarrierRelease:
    """All that was decided about the members when a barrier was released.

    Attributes:
        number: How many barriers have been released, this one included.
        time: Their next interval counts from this time.
        target: Where the next barrier is.
        ranked: How many members were ranked.
        quantile: How many of them were the worst, and as many the best.
        clones: What the worst go on from, and with.
    """

    number: int
    time: float
    target: float
    ranked: int
    quantile: int
    clones: Mapping[int, tuple[DonorState, Configuration]]


class BarrierReleaseWriter:
    """Writes releases into records, and reads them back.

    Each clone becomes a list of words: who, whose, how far, with which score, at which iteration, then the values of
    the sampled parameters in the manifest's order; of a choice its position, since a text may be longer than a record's
    value. A release without a version was written before iterations were, and lacks them.
    """

    def __init__(self, parameters: Sequence[Parameter], constraints: Sequence[str]) -> None:
        self._rules = ConfigurationRules(parameters, constraints)
        self._sampled = [parameter for parameter in parameters if parameter.is_sampled]

    def write(self, release: BarrierRelease) -> dict[str, Mapping[str, str]]:
        """The sections of a record that hold a release."""
        name = f"{SECTION}-{release.number}"
        known = {
            "version": _VERSION,
            "time": format_shortest(release.time),
            "target": format_shortest(release.target),
            "ranked": str(release.ranked),
            "quantile": str(release.quantile),
        }
        words = [word for trial, cloned in release.clones.items() for word in self._build_words(trial, *cloned)]
        return {name: known | encode_words(words)}

    def read(self, record: Mapping[str, Mapping[str, str]]) -> list[BarrierRelease]:
        """The releases that a record holds.

        Raises:
            ValueError: One can't have been written so.
        """
        sections = {name.removeprefix(f"{SECTION}-"): section for name, section in record.items() if SECTION in name}
        return [self._release(int(number), section) for number, section in sections.items()]

    def _release(self, number: int, section: Mapping[str, str]) -> BarrierRelease:
        words = decode_words({key: value for key, value in section.items() if key.isdecimal()})
        has_steps = section.get("version") == _VERSION
        width = 4 + has_steps + len(self._sampled)
        if len(words) % width:
            raise ValueError(f"{SECTION}-{number} has {len(words)} words, which is not a multiple of {width}")
        time = float(section.get("time", ""))
        clones = [
            self._clone(words[start : start + width], time, has_steps=has_steps)
            for start in range(0, len(words), width)
        ]
        return BarrierRelease(
            number=number,
            time=time,
            target=float(section.get("target", "")),
            ranked=int(section.get("ranked", "")),
            quantile=int(section.get("quantile", "")),
            clones=dict(clones),
        )

    def _build_words(self, trial: int, clone: DonorState, configuration: Configuration) -> list[str]:
        values = [self._format_word(parameter, configuration) for parameter in self._sampled]
        known = [
            str(trial),
            str(clone.donor),
            format_shortest(clone.trained),
            format_shortest(clone.score),
            str(clone.step),
        ]
        return [*known, *values]

    def _clone(
        self, words: Sequence[str], time: float, *, has_steps: bool
    ) -> tuple[int, tuple[DonorState, Configuration]]:
        trial, donor, trained, score, *written = words
        step = int(written.pop(0)) if has_steps else int(float(trained))
        values = {
            parameter.name: _parse_value(parameter, word)
            for parameter, word in zip(self._sampled, written, strict=True)
            if word != _ABSENT
        }
        clone = DonorState(int(donor), float(trained), time, float(score), step)
        return int(trial), (clone, self._rules.build_configuration(values))

    def _format_word(self, parameter: Parameter, configuration: Configuration) -> str:
        if parameter.name not in configuration:
            return _ABSENT
        written = format_value(configuration[parameter.name])
        if isinstance(parameter.domain, ChoiceDomain):
            return str([format_value(value) for value in parameter.domain.values].index(written))
        return written


def _parse_value(parameter: Parameter, word: str) -> Scalar:
    match parameter.domain:
        case ChoiceDomain(values=values):
            return values[int(word)]
        case IntDomain():
            return int(word)
        case _:
            return float(word)
