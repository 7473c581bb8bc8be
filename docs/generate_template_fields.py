"""Writes charts/podtune/admission/template-fields.yaml: the operator's allow-list of pod fields in CEL, for the chart.

`python docs/generate_template_fields.py --write` writes it; `--check` fails when it is not what the tables say.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.generated_pages import write_or_check  # noqa: E402
from podtune.api.pods.fields_in_cel import write_variables  # noqa: E402
from podtune.api.pods.pod_template import build_allow_list  # noqa: E402
from podtune.api.pods.template_policy import DEFAULT_POLICY  # noqa: E402

FILE = ROOT / "charts" / "podtune" / "admission" / "template-fields.yaml"
_HEADER = "# Generated from operator/podtune/api/pods by docs/generate_template_fields.py. Do not edit.\n"


class _Dumper(yaml.SafeDumper):
    """Writes expressions of several lines as they are."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def build_variables() -> str:
    """The policy's variables."""
    written = write_variables(build_allow_list(DEFAULT_POLICY))
    variables = [{"name": name, "expression": expression} for name, expression in written.items()]
    return _HEADER + yaml.dump(variables, Dumper=_Dumper, sort_keys=False, width=110)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__ or "", {FILE: build_variables()}))
