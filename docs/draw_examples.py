"""Draws the pictures of the examples anew, each from a run of its example; look at each before you commit it.

`python -m docs.draw_examples shell katib` runs these here, by `podtune run`; torch and gradient-boosting need their
frameworks for it. Two need a cluster, and are drawn of what has run there:
`python -m e2e.devcluster exec -- python -m docs.draw_examples gang warm-pods --namespace NAME`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from docs.svg_chart import Chart, Panel, Point
from podtune.cli.views.numbers import format_number
from podtune.dashboard.charts.scales import Scale, fit_scale

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
HEIGHT, TOP, BOTTOM = 330, 62, 36
COLD = "cold-pods"
"""The Experiment of the warm pods without `reuse`, beside which they are drawn."""
LEGEND = (("best", "best"), ("done", "to the end"), ("stopped", "stopped early"))

Trial = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A run of an example, with its trials as the API server has them.

    Attributes:
        directory: Where `podtune run` has left its files; None where it ran on a cluster.
        beside: Trials of another Experiment.
    """

    trials: Sequence[Trial]
    directory: Path | None = None
    beside: Sequence[Trial] = ()

    def find_best(self, mode: str) -> Trial:
        """The trial with the best value."""
        valued = [trial for trial in self.trials if "bestValue" in trial["status"]]
        return (max if mode == "max" else min)(valued, key=lambda trial: float(trial["status"]["bestValue"]))


@dataclass(frozen=True)
class Curves:
    """Draws a line for each trial: its objective over its training.

    Attributes:
        mode: Whether high values are good: max, or min.
        x_label: What a result is.
        every: How much of that passes from result to result.
        high: Where the y axis ends; what is beyond is cut off.
    """

    metric: str
    mode: str
    x_label: str = "epoch"
    every: int = 1
    is_log: bool = False
    high: float | None = None
    low: float | None = None

    def draw(self, run: Run) -> Chart:
        """Draws them, the best one last."""
        best = run.find_best(self.mode)
        lines = [(trial, read_curve(trial, self.every)) for trial in run.trials if trial["status"].get("curve")]
        lines.sort(key=lambda line: (line[0] is best, not is_stopped(line[0])))
        shown = [(trial, [point for point in points if self._is_shown(point[1])]) for trial, points in lines]
        values = [y for _, points in shown for _, y in points]
        chart = Chart(HEIGHT, f"{self.metric} of {len(lines)} trials over {self.x_label}s")
        x = Scale(0, max(x for _, points in lines for x, _ in points))
        panel = chart.add_panel(TOP, HEIGHT - TOP - BOTTOM, x, fit_scale(values, is_log=self.is_log))
        panel.draw_axes(self.x_label, self.metric)
        stopped = any(is_stopped(trial) for trial, _ in lines)
        chart.draw_legend([entry for entry in LEGEND if stopped or entry[0] != "stopped"])
        for trial, points in shown:
            self._draw_line(panel, trial, points, is_best=trial is best)
        return chart

    def _is_shown(self, value: float) -> bool:
        return (self.high is None or value <= self.high) and (self.low is None or value >= self.low)

    def _draw_line(self, panel: Panel, trial: Trial, points: Sequence[Point], *, is_best: bool) -> None:
        if not points:
            return
        style = "best" if is_best else "stopped" if is_stopped(trial) else "done"
        panel.draw_line(points, style)
        if is_stopped(trial) or is_best or len(points) == 1:
            panel.draw_dot(*points[-1], style)
        if is_best:
            panel.write(*points[-1], format_number(trial["status"]["bestValue"]))


def is_stopped(trial: Trial) -> bool:
    """Whether a scheduler has stopped it."""
    return bool(trial["status"].get("reason") == "StoppedByScheduler")


def read_curve(trial: Trial, every: int) -> list[Point]:
    """A trial's learning curve."""
    curve = trial["status"]["curve"]
    pairs = zip(curve["steps"], curve["values"][0], strict=True)
    return [(float(every * step), value) for step, value in pairs if value is not None]


def draw_front(run: Run) -> Chart:
    """Draws one objective over the other, with the trials that none beats in both."""
    points = [
        (float(trial["status"]["lastResult"]["memory_kib"]), float(trial["status"]["lastResult"]["ratio"]))
        for trial in run.trials
    ]
    front: list[Point] = []
    for memory, ratio in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or ratio > front[-1][1]:
            front.append((memory, ratio))
    chart = Chart(HEIGHT, "Compression ratio over memory, with the Pareto front")
    x, y = fit_scale((x for x, _ in points), is_log=True), fit_scale(y for _, y in points)
    panel = chart.add_panel(TOP, HEIGHT - TOP - BOTTOM, x, y)
    panel.draw_axes("KiB", "compression ratio")
    chart.draw_legend([("best", "no other is better in both"), ("done", "others")])
    panel.draw_line(front, "front", is_stepped=True)
    for point in points:
        if point not in front:
            panel.draw_dot(*point, "done", 3.5)
    for point in front:
        panel.draw_dot(*point, "best", 5)
    return chart


def draw_population(run: Run) -> Chart:
    """Draws the losses of a population, and below its learning rates; a clone begins a new line."""
    assert run.directory is not None, "the learning rates are in the files of a local run"
    lines: dict[str, list[list[dict[str, float]]]] = {}
    for path in sorted(run.directory.glob("attempts/*/shared/results.jsonl"), key=lambda path: path.stat().st_mtime):
        rows = [row for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if "loss" in row]
        own = lines.setdefault(path.parents[1].name.rpartition("-")[0], [])
        if own and rows and own[-1][-1]["rate"] == rows[0]["rate"]:
            own[-1] += [row for row in rows if row["epoch"] > own[-1][-1]["epoch"]]
        elif rows:
            own.append(rows)
    best = run.find_best("min")["metadata"]["name"]
    rows = [row for own in lines.values() for line in own for row in line]
    chart = Chart(HEIGHT + 146, "Loss and learning rate of a population over its epochs")
    x = Scale(0, max(row["epoch"] for row in rows))
    chart.draw_legend([("best", "best"), ("done", "the others")])
    for name, top, height in (("loss", TOP, 190), ("rate", TOP + 250, 130)):
        panel = chart.add_panel(top, height, x, fit_scale((row[name] for row in rows), is_log=True))
        panel.draw_axes("epoch", {"rate": "learning rate"}.get(name, name))
        for trial, own in sorted(lines.items(), key=lambda item: item[0] == best):
            style = "best" if trial == best else "done"
            for line in own:
                panel.draw_line([(row["epoch"], row[name]) for row in line], style)
                panel.draw_dot(line[0]["epoch"], line[0][name], style, 2.5)
            if trial == best:
                panel.write(own[-1][-1]["epoch"], own[-1][-1][name], format_number(str(own[-1][-1][name])))
    return chart


def draw_parameter(run: Run) -> Chart:
    """Draws the accuracy over a parameter, in two colours by another one."""
    dots = [
        (float(trial["spec"]["parameters"]["alpha"]), float(trial["status"]["bestValue"]), trial)
        for trial in run.trials
        if "bestValue" in trial["status"]
    ]
    best = run.find_best("max")
    chart = Chart(HEIGHT, "Accuracy over alpha, by penalty")
    x, y = fit_scale((x for x, _, _ in dots), is_log=True), fit_scale(y for _, y, _ in dots)
    panel = chart.add_panel(TOP, HEIGHT - TOP - BOTTOM, x, y)
    panel.draw_axes("alpha", "accuracy")
    chart.draw_legend([("done", "penalty l2"), ("other", "penalty l1")])
    for alpha, accuracy, trial in dots:
        style = "done" if trial["spec"]["parameters"]["penalty"] == "l2" else "other"
        panel.draw_dot(alpha, accuracy, style, 6.5 if trial is best else 4)
        if trial is best:
            across, height = panel.at(alpha, accuracy)
            chart.write(
                across,
                height - 14,
                f"best: {format_number(trial['status']['bestValue'])}",
                anchor="middle",
                style="strong",
            )
    return chart


def draw_pace(run: Run) -> Chart:
    """Draws how many trials are done over time, in warm pods and with a pod for each."""
    assert run.beside, f"run the example without reuse as {COLD}, too"
    lines = {"best": read_ends(run.trials), "stopped": read_ends(run.beside)}
    longest = max(seconds for ends in lines.values() for seconds, _ in ends)
    chart = Chart(HEIGHT, "Trials done over time, in two warm pods and with a pod for each")
    panel = chart.add_panel(TOP, HEIGHT - TOP - BOTTOM, Scale(0, longest), Scale(0, 1.05 * len(run.trials)))
    panel.draw_axes("seconds", "trials done")
    chart.draw_legend([("best", "in two warm pods"), ("stopped", "a pod for each")])
    for style, ends in lines.items():
        panel.draw_line([(0, 0), *ends], style, is_stepped=True)
        panel.draw_dot(*ends[-1], style)
        panel.write(*ends[-1], f"{ends[-1][0]:.0f} s")
    return chart


def read_ends(trials: Sequence[Trial]) -> list[Point]:
    """When each trial has ended, in seconds since the first was made, and how many had by then."""
    begin = min(datetime.fromisoformat(trial["metadata"]["creationTimestamp"]) for trial in trials)
    ends = sorted(datetime.fromisoformat(trial["status"]["completionTime"]) for trial in trials)
    return [((end - begin).total_seconds(), float(count)) for count, end in enumerate(ends, start=1)]


def draw_costs(directory: Path) -> Chart:
    """Draws the best value over GPU-hours of a simulation, and of one that trains all trials to the end."""
    manifest = yaml.safe_load((EXAMPLES / "simulation" / "experiment.yaml").read_text(encoding="utf-8"))
    scheduler = manifest["spec"]["scheduler"]
    lines = {}
    for style, text, spec in (
        ("best", "with ASHA", {"scheduler": scheduler}),
        ("stopped", "all to the end", {"scheduler": {"fifo": {}}}),
    ):
        written = directory / f"{style}.yaml"
        written.write_text(yaml.safe_dump({**manifest, "spec": {**manifest["spec"], **spec}}), encoding="utf-8")
        lines[style] = text, simulate(written, iterations=scheduler["asha"]["maxTime"])
    points = {style: read_improvements(outcome) for style, (_, outcome) in lines.items()}
    chart = Chart(HEIGHT, "Best loss over GPU-hours, with ASHA and without")
    x = Scale(0, max(hours for own in points.values() for hours, _ in own))
    y = fit_scale((value for own in points.values() for _, value in own), is_log=True)
    panel = chart.add_panel(TOP, HEIGHT - TOP - BOTTOM, x, y)
    panel.draw_axes("GPU-hours", "best loss")
    chart.draw_legend([(style, text) for style, (text, _) in lines.items()])
    for style, own in sorted(points.items(), reverse=True):
        panel.draw_line(own, style, is_stepped=True)
        panel.draw_dot(*own[-1], style)
        panel.write(*own[-1], f"{own[-1][0]:,.0f} h")
    return chart


def simulate(manifest: Path, iterations: int) -> dict[str, Any]:
    """Simulates an Experiment as the example's README does."""
    command = [sys.executable, "-m", "podtune.cli.main", "simulate", str(manifest), "--time-per-iteration", "4m"]
    command += ["--function", "rosenbrock", "--gpus", "8", "--iterations", str(iterations), "--output", "json"]
    outcome: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return outcome


def read_improvements(outcome: dict[str, Any]) -> list[Point]:
    """The best value after so many GPU-hours, up to all that were used."""
    points = [(row["gpuHours"], row["value"]) for row in outcome["improvements"]]
    return [*points, (outcome["gpuHours"], points[-1][1])]


DRAWINGS: dict[str, Callable[[Run], Chart]] = {
    "shell": Curves("loss", "min", is_log=True).draw,
    "katib": Curves("loss", "min").draw,
    "hugging-face": Curves("eval_loss", "min", x_label="step", every=100).draw,
    "gang": Curves("loss", "min", is_log=True).draw,
    "several-objectives": draw_front,
    "pbt": draw_population,
    "notebook": draw_parameter,
    "warm-pods": draw_pace,
    "digits": Curves("accuracy", "max", low=0.8).draw,
    "torch": Curves("accuracy", "max").draw,
    "gradient-boosting": Curves("rmse", "min", x_label="tree", every=10, is_log=True).draw,
}
SIMULATION = "simulation"


def run_here(name: str, directory: Path) -> Run:
    """Runs an example as its README says."""
    program = f"{sys.executable} tune_a_function.py | " if name == "notebook" else ""
    manifest = "-" if name == "notebook" else "experiment.yaml"
    command = f"{program}{sys.executable} -m podtune.cli.main run {manifest} --directory {directory}"
    environ = {**os.environ, "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))}
    subprocess.run(["bash", "-c", command], cwd=EXAMPLES / name, env=environ, check=True)
    return Run([json.loads(path.read_text(encoding="utf-8")) for path in directory.glob("trials/*.json")], directory)


def read_cluster(namespace: str, name: str) -> Run:
    """Reads the trials of an example that has run on a cluster."""
    command = ["kubectl", "get", "trials.podtune.dev", "--namespace", namespace, "--output", "json"]
    found: list[Trial] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["items"]
    own, cold = ([trial for trial in found if trial["spec"]["experiment"] == each] for each in (name, COLD))
    return Run(own, beside=cold)


def draw(name: str, directory: Path, namespace: str | None) -> Chart:
    """Draws an example's picture: of a run in a namespace of the cluster, else of one here."""
    if name == SIMULATION:
        return draw_costs(directory)
    return DRAWINGS[name](read_cluster(namespace, name) if namespace else run_here(name, directory / "run"))


def main() -> None:
    """Draws those that are named, or all that run here."""
    parser = argparse.ArgumentParser(description=__doc__)
    choices = [*DRAWINGS, SIMULATION, []]
    parser.add_argument("names", nargs="*", metavar="NAME", choices=choices, help="folders in examples")
    parser.add_argument("--namespace", help="where they have run on the cluster of the current context")
    given = parser.parse_args()
    for name in given.names:
        with tempfile.TemporaryDirectory() as folder:
            picture = EXAMPLES / name / "picture.svg"
            picture.write_text(draw(name, Path(folder), given.namespace).render(), encoding="utf-8")
            print(f"{picture.relative_to(EXAMPLES.parent)}: {picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
