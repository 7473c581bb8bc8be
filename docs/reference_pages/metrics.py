"""The page of the operator's metrics, and the list of them: name, type and labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docs.reference_pages.tables import make_table

PREFIX = "podtune_"
INTRODUCTION = """# Metrics

The operator serves these at `/metrics` on port 8444, by HTTPS and to
[those who may read them](../how-to/authenticate-metrics.md), in the text format of Prometheus, beside those of its
Python process. A standby serves them too; only the leader counts experiments, trials and what waits.

Names, types and labels don't change with a patch release, and how they change otherwise
[is written down](../explanation/api-versions.md#how-a-metric-is-replaced). [Be told when the operator needs
you](../how-to/watch-the-operator.md) has alerts and dashboards made of them.

"""


@dataclass(frozen=True, slots=True, order=True)
class DescribedMetric:
    """A metric of the operator's own.

    Attributes:
        name: As it is served; of a histogram without `_bucket`, `_count` and `_sum`.
        kind: counter, gauge or histogram.
        labels: Names of its labels.
        meaning: A sentence.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str

    def format(self) -> str:
        """It as a line of the list that is held by a test."""
        return " ".join((self.name, self.kind, *self.labels))


def list_metrics() -> list[DescribedMetric]:
    """All that the operator's process serves, in order of their names, but for those of Python."""
    from prometheus_client import REGISTRY  # noqa: PLC0415 - these need the operator's dependencies

    import podtune.app.operator  # noqa: F401, PLC0415 - whatever it is made of registers its metrics
    from podtune.controllers.collectors import BacklogCollector, StoreCollector  # noqa: PLC0415

    registered = set(REGISTRY._collector_to_names)
    of_leader = [StoreCollector(_NoExperiments()), BacklogCollector(lambda: 0, dict, lambda: 0.0)]  # type: ignore[arg-type]
    families = [family for collector in registered for family in getattr(collector, "describe", list)()]
    families += [family for collector in of_leader for family in collector.collect()]
    labels = {name: getattr(c, "_labelnames", ()) for c in registered for name in REGISTRY._collector_to_names[c]}
    return sorted(
        DescribedMetric(
            f"{family.name}_total" if family.type == "counter" else family.name,
            family.type,
            tuple(getattr(family, "_labelnames", labels.get(family.name, ()))),
            family.documentation,
        )
        for family in families
        if family.name.startswith(PREFIX)
    )


def metrics_page() -> str:
    """The page's text."""
    return INTRODUCTION + make_table(("metric", "type", "labels", "meaning"), _list_rows()).rstrip("\n") + "\n"


def _list_rows() -> Iterator[tuple[str, str, str, str]]:
    for metric in list_metrics():
        yield f"`{metric.name}`", metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.meaning


class _NoExperiments:
    """A store in which there is nothing to count: the families are described all the same."""

    def list_entries(self) -> tuple[()]:
        return ()
