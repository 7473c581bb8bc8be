"""Writes charts/podtune/admission/template-fields.yaml: the operator's allow-list of pod fields in CEL, for the chart.

`python docs/generate_template_fields.py --write` writes it; `--check` fails when it is not what the tables say.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs.generated_pages import dump_yaml, write_or_check  # noqa: E402
from podtune.api.pods.fields_in_cel import write_variables  # noqa: E402
from podtune.api.pods.pod_template import build_allow_list  # noqa: E402
from podtune.api.pods.template_policy import DEFAULT_POLICY  # noqa: E402

FILE = ROOT / "charts" / "podtune" / "admission" / "template-fields.yaml"
_HEADER = "# Generated from operator/podtune/api/pods by docs/generate_template_fields.py. Do not edit.\n"


def build_variables() -> str:
    """The policy's variables."""
    written = write_variables(build_allow_list(DEFAULT_POLICY))
    variables = [{"name": name, "expression": expression} for name, expression in written.items()]
    return _HEADER + dump_yaml(variables)


if __name__ == "__main__":
    sys.exit(write_or_check(__doc__ or "", {FILE: build_variables()}))
