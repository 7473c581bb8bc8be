"""The page of the log lines' fields and events, and the table of fields that it is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from docs.reference_pages.log_calls import list_log_calls
from docs.reference_pages.tables import make_table

TABLE = Path(__file__).with_name("log_fields.yaml")
EVERY_LINE = "every line"
"""The group of fields that no line lacks."""
EXAMPLE = (
    '{"time": "2026-03-02T09:41:07.318Z", "level": "warning", "event": "store problem", "component": "agent", '
    '"command": "run", "namespace": "team-a", "experiment": "digits", "trial": "digits-4", "attempt": 2, '
    '"attempt_id": "0e5f8c1c-6d0f-4a53-9b37-5d0d2a4c6f10", "reason": "AccessDenied", '
    '"message": "bucket \'models\' at AWS (eu-central-1): PutObject is not allowed", "times": 10}'
)
INTRODUCTION = f"""# Log lines

Operator, agent and dashboard write one JSON object a line to standard error, all with the fields below and no others.
[Logs of agent and operator](../troubleshooting/logs.md) says what each event means and what to do. Your program's own
output stays as it is.

```json
{EXAMPLE}
```

A value always has the type of its field. Lines of libraries come in the same form, with `logger`. Only a process that
can't read its settings, or that Python itself ends, says so in plain text.

Names, types and meanings don't change with a patch release, and how they change otherwise
[is written down](../explanation/api-versions.md#how-a-field-of-the-logs-is-replaced).

## Filter lines

In a trial's pod, each line of the agent names namespace, experiment, trial and attempt. Lines of operator and dashboard
do where they are about one.

<!-- not run: it wants an experiment that has logged something -->
```sh
kubectl podtune logs digits-4 --agent | jq -c 'select(.attempt == 2)'
kubectl logs --namespace podtune-system deployment/podtune \\
  | jq -c 'select(.namespace == "team-a" and .experiment == "digits")'
kubectl logs --selector podtune.dev/experiment=digits --container podtune-agent --prefix=false --tail=-1 \\
  | jq -c 'select(.trial == "digits-4" and .level != "info") | {{time, event, message}}'
```

In a store of logs, take `component`, `level` and `namespace` as labels, and the rest as it is: in Grafana Loki,
`{{namespace="team-a"}} | json | trial="digits-4" | attempt="2"`.

"""


@dataclass(frozen=True, slots=True)
class LogField:
    """A field of log lines.

    Attributes:
        group: What its section is called.
        name: Its name.
        kind: Its type, as the table says it.
        meaning: A sentence or two.
        needs: The field that a line with this one has as well; empty where there is none.
        unit: What a number counts; empty where the meaning says it.
    """

    group: str
    name: str
    kind: str
    meaning: str
    needs: str = ""
    unit: str = ""


@cache
def read_log_fields() -> dict[str, LogField]:
    """All fields by their names, in the table's order."""
    groups = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    fields = [
        LogField(group, name, row["type"], row["meaning"], row.get("needs", ""), row.get("unit", ""))
        for group, rows in groups.items()
        for name, row in rows.items()
    ]
    return {field.name: field for field in fields}


def logs_page() -> str:
    """The page's text."""
    sections = [INTRODUCTION + "## Fields\n"]
    for group in dict.fromkeys(field.group for field in read_log_fields().values()):
        rows = [_make_row(field) for field in read_log_fields().values() if field.group == group]
        sections.append(f"### {group.capitalize()}\n\n{make_table(('field', 'type', 'meaning'), rows)}")
    events = make_table(("event", "component", "level", "fields besides those of every line"), _list_events())
    remark = "The agent's lines have those of [what it is about](#what-it-is-about), too.\n\n"
    return "\n".join(sections) + f"\n## Events\n\n{remark}{events}"


def _make_row(field: LogField) -> tuple[str, str, str]:
    return f"`{field.name}`", f"{field.kind}, {field.unit}" if field.unit else field.kind, field.meaning


def _list_events() -> Iterator[tuple[str, str, str, str]]:
    found: dict[tuple[str, str], set[tuple[str, tuple[str, ...]]]] = defaultdict(set)
    for call in list_log_calls():
        for event in call.events:
            found[event, call.component].add((call.level, call.fields))
    for (event, component), ways in sorted(found.items()):
        levels = ", ".join(sorted({level for level, _ in ways}))
        fields = sorted({field for _, fields in ways for field in fields})
        yield f"`{event}`", component, levels, ", ".join(f"`{field}`" for field in fields)
