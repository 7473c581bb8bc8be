"""Has scanners look at the rendered charts and at the Dockerfile; what they find has a written reason, or is an error.

python -m e2e.scans build/checkov/bin/checkov

kube-score is built from its Go module, checkov is the program named. The reasons are in exceptions.yaml: one that
excuses nothing any more is an error, too. kube-linter is no part of it: Go's module proxy, PyPI and npm don't have it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from e2e.devcluster.building import tools
from e2e.devcluster.errors import ClusterError
from e2e.scans.findings import compare, read_exceptions
from e2e.scans.scanners import render_charts, scan_by_checkov, scan_by_kube_score

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Does it; returns the exit code."""
    try:
        helm = tools.installed() or tools.ensure("clients")
        with tempfile.TemporaryDirectory() as folder:
            rendered = render_charts(helm / "helm", ROOT / "charts", Path(folder))
            found = scan_by_kube_score(tools.ensure("kube-score") / "kube-score", rendered)
            for file, framework in ((rendered, "kubernetes"), (ROOT / "Dockerfile", "dockerfile")):
                found |= scan_by_checkov(Path(sys.argv[1]), file, framework)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    problems = list(compare(found, read_exceptions(Path(__file__).with_name("exceptions.yaml"))))
    print("\n".join(problems) or f"{len(found)} findings, each with its reason in e2e/scans/exceptions.yaml")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
