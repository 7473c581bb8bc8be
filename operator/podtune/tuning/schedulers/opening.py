"""What was decided when the barrier of a synchronous population opened, and how it is written into a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtune.api.configuration import ConfigurationRules
from podtune.api.search_space import ChoiceDomain, IntDomain, Parameter, Scalar, format_value
from podtune.tuning.schedulers.packing import pack, shortest, unpack
from podtune.tuning.schedulers.population import Clone
from podtune.tuning.searchers.base import Configuration

SECTION = "opened"
"""Sections of a record that hold openings begin with this, their number after it."""
_ABSENT = "-"
_VERSION = "2"


@dataclass(frozen=True, slots=True)
class Opening:
    """All that follows for the members when a barrier opens.

    Attributes:
        number: How many barriers have opened, this one included.
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
    clones: Mapping[int, tuple[Clone, Configuration]]


class OpeningWriter:
    """Writes openings into records, and reads them back.

    Each clone becomes a list of words: who, whose, how far, with which score, at which iteration, then the values of
    the sampled parameters in the manifest's order; of a choice its position, since a text may be longer than a record's
    value. An opening without a version was written before iterations were, and lacks them.
    """

    def __init__(self, parameters: Sequence[Parameter], constraints: Sequence[str]) -> None:
        """Makes it for a search space."""
        self._rules = ConfigurationRules(parameters, constraints)
        self._sampled = [parameter for parameter in parameters if parameter.is_sampled]

    def write(self, opening: Opening) -> dict[str, Mapping[str, str]]:
        """The sections of a record that hold an opening."""
        name = f"{SECTION}-{opening.number}"
        known = {
            "version": _VERSION,
            "time": shortest(opening.time),
            "target": shortest(opening.target),
            "ranked": str(opening.ranked),
            "quantile": str(opening.quantile),
        }
        words = [word for trial, cloned in opening.clones.items() for word in self._words(trial, *cloned)]
        return {name: known | pack(words)}

    def read(self, record: Mapping[str, Mapping[str, str]]) -> list[Opening]:
        """The openings that a record holds.

        Raises:
            ValueError: One can't have been written so.
        """
        sections = {name.removeprefix(f"{SECTION}-"): section for name, section in record.items() if SECTION in name}
        return [self._opening(int(number), section) for number, section in sections.items()]

    def _opening(self, number: int, section: Mapping[str, str]) -> Opening:
        words = unpack({key: value for key, value in section.items() if key.isdecimal()})
        has_steps = section.get("version") == _VERSION
        width = 4 + has_steps + len(self._sampled)
        if len(words) % width:
            raise ValueError(f"{SECTION}-{number} has {len(words)} words, which is no multiple of {width}")
        time = float(section.get("time", ""))
        clones = [
            self._clone(words[start : start + width], time, has_steps=has_steps)
            for start in range(0, len(words), width)
        ]
        return Opening(
            number=number,
            time=time,
            target=float(section.get("target", "")),
            ranked=int(section.get("ranked", "")),
            quantile=int(section.get("quantile", "")),
            clones=dict(clones),
        )

    def _words(self, trial: int, clone: Clone, configuration: Configuration) -> list[str]:
        values = [self._word(parameter, configuration) for parameter in self._sampled]
        known = [str(trial), str(clone.donor), shortest(clone.trained), shortest(clone.score), str(clone.step)]
        return [*known, *values]

    def _clone(self, words: Sequence[str], time: float, *, has_steps: bool) -> tuple[int, tuple[Clone, Configuration]]:
        trial, donor, trained, score, *written = words
        step = int(written.pop(0)) if has_steps else int(float(trained))
        values = {
            parameter.name: _value(parameter, word)
            for parameter, word in zip(self._sampled, written, strict=True)
            if word != _ABSENT
        }
        clone = Clone(int(donor), float(trained), time, float(score), step)
        return int(trial), (clone, self._rules.configuration(values))

    def _word(self, parameter: Parameter, configuration: Configuration) -> str:
        if parameter.name not in configuration:
            return _ABSENT
        written = format_value(configuration[parameter.name])
        if isinstance(parameter.domain, ChoiceDomain):
            return str([format_value(value) for value in parameter.domain.values].index(written))
        return written


def _value(parameter: Parameter, word: str) -> Scalar:
    match parameter.domain:
        case ChoiceDomain(values=values):
            return values[int(word)]
        case IntDomain():
            return int(word)
        case _:
            return float(word)
