"""Dashboards of Grafana, made of a short description: rows of panels, each with its queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

WIDTH = 24
"""Columns of a dashboard."""
SCHEMA_VERSION = 39
"""That of Grafana 11; later ones read it, and write it anew."""
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


class PanelKind(StrEnum):
    """How a panel shows what its queries return, in Grafana's words."""

    LINES = "timeseries"
    NUMBER = "stat"
    TABLE = "table"


@dataclass(frozen=True)
class Panel:
    """A picture of some queries.

    Attributes:
        title: Above it.
        meaning: What it shows, and from where on it is bad.
        queries: Each query in PromQL, by the legend of what it returns: a word, or `{{label}}`.
        unit: As Grafana knows it: short, s, ops, bytes, percentunit.
        kind: How it is shown.
        width: In columns.
        stacked: Whether lines are put upon each other.
    """

    title: str
    meaning: str
    queries: Mapping[str, str]
    unit: str = "short"
    kind: PanelKind = PanelKind.LINES
    width: int = 8
    stacked: bool = False


@dataclass(frozen=True)
class Variable:
    """A choice at the top of a dashboard: values of a label."""

    name: str
    label: str
    query: str
    several: bool = False


@dataclass(frozen=True)
class Dashboard:
    """A page of panels."""

    uid: str
    title: str
    meaning: str
    variables: Sequence[Variable]
    rows: Mapping[str, Sequence[Panel]]

    def list_queries(self) -> Iterator[str]:
        """All queries of its panels."""
        for panels in self.rows.values():
            for panel in panels:
                yield from panel.queries.values()

    def format(self) -> str:
        """It as Grafana reads it."""
        about = {
            "uid": self.uid,
            "title": self.title,
            "description": self.meaning,
            "tags": ["podtune"],
            "schemaVersion": SCHEMA_VERSION,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [_DATASOURCE_CHOICE, *map(_format_variable, self.variables)]},
            "panels": list(self._format_panels()),
        }
        return json.dumps(about, indent=1) + "\n"

    def _format_panels(self) -> Iterator[dict[str, Any]]:
        number, top = 0, 0
        for title, panels in self.rows.items():
            number += 1
            row = {"id": number, "type": "row", "title": title, "collapsed": False, "panels": []}
            yield row | {"gridPos": {"x": 0, "y": top, "w": WIDTH, "h": 1}}
            top += 1
            left, height = 0, 4 if all(panel.kind is PanelKind.NUMBER for panel in panels) else 8
            for panel in panels:
                if left + panel.width > WIDTH:
                    left, top = 0, top + height
                number += 1
                place = {"x": left, "y": top, "w": panel.width, "h": height}
                yield {"id": number, "gridPos": place} | _format_panel(panel)
                left += panel.width
            top += height


_DATASOURCE_CHOICE = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _format_variable(variable: Variable) -> dict[str, Any]:
    choice: dict[str, Any] = {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": variable.query, "refId": "A"},
        "definition": variable.query,
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
    }
    if variable.several:
        choice |= {"multi": True, "includeAll": True, "current": {"text": "All", "value": "$__all"}}
    return choice


def _format_panel(panel: Panel) -> dict[str, Any]:
    is_table = panel.kind is PanelKind.TABLE
    targets = [
        {"refId": chr(ord("A") + number), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend}
        | ({"instant": True, "format": "table"} if is_table else {})
        for number, (legend, query) in enumerate(panel.queries.items())
    ]
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if panel.stacked else {}
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0} | ({"custom": custom} if custom else {})
    shown: dict[str, Any] = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }
    if is_table:
        hidden = dict.fromkeys(("Time", "job", "instance", "pod", "service", "endpoint", "container"), True)
        shown["transformations"] = [{"id": "organize", "options": {"excludeByName": hidden}}]
    return shown
