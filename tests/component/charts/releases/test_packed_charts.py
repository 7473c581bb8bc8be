"""Charts as a release packs them are what Helm makes of their folders. Needs the local cluster's programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from release.charts import pack_chart
from tests.component.charts.rendered import CHARTS, run_helm

pytestmark = [pytest.mark.cluster]


@pytest.mark.parametrize("name", ["podtune", "podtune-crds"])
def test_helm_makes_the_same_of_a_packed_chart(name: str, tmp_path: Path) -> None:
    packed = pack_chart(CHARTS / name, tmp_path, epoch=1_780_000_000)
    linted = run_helm("lint", "--strict", str(packed))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    shown = run_helm("show", "chart", str(packed))
    assert f"name: {name}\n" in shown.stdout
    rendered = [
        run_helm("template", "podtune", str(chart), "-n", "tuning", "--kube-version=1.34.0")
        for chart in (packed, CHARTS / name)
    ]
    assert rendered[0].returncode == 0, rendered[0].stderr
    assert rendered[0].stdout == rendered[1].stdout
