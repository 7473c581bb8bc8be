"""The examples, applied as their READMEs say, all at once; each comes to what its README promises.

In `make e2e` some of them have a few trials each. `make test-long` runs all trials of all, also of those that need a
framework, whose images it builds.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.fenced_blocks import ROOT, Block, find_blocks
from e2e.devcluster import Cluster
from e2e.experiments import PROGRAMS
from e2e.install import Image
from e2e.kubernetes import Kubernetes, Object, condition
from e2e.tests.typed_commands import make_environment, run_typed
from e2e.trials import EXPERIMENTS, TRIALS

EXAMPLES = ROOT / "examples"
HERE = "e2e/tests/examples/test_examples.py"
APPLY = "kubectl apply -k ."
"""On the local cluster, which pulls no images, the block of the index takes its place."""
SHORTER = (("{epoch: 40}", "{epoch: 10}"), ("interval: 5\n", "interval: 3\n"))
"""Where few trials are enough, so is a short training of a population."""


@dataclass(frozen=True)
class Example:
    """One of the examples.

    Attributes:
        folder: Where it is.
        few: As many trials are enough to see it work.
        best: What its best value is better than once all trials are done; its README says so.
        metrics: What its results hold beside the objective.
        name: Of the Experiment, where that is not the folder's.
    """

    folder: str
    few: int
    best: float
    metrics: tuple[str, ...] = ()
    name: str = ""

    @property
    def experiment(self) -> str:
        return self.name or self.folder


@dataclass(frozen=True)
class Framework:
    """An example with an image of its own.

    Attributes:
        named: The image that its manifest names.
        dockerfile: What is built in its place.
        time: What counts up in its results, by `every` each time.
    """

    example: Example
    named: str
    dockerfile: Path
    time: str
    every: int


LIGHT = (
    Example("pbt", 2, 0.25, ("epoch", "rate")),
    Example("gang", 1, 0.02, ("epoch", "ranks")),
    Example("shell", 2, 0.01, ("epoch",)),
    Example("katib", 2, 0.35, ("epoch", "accuracy")),
    Example("hugging-face", 2, 2.6, ("current_step", "learning_rate")),
    Example("several-objectives", 3, 4, ("memory_kib",)),
    Example("warm-pods", 12, 0.57),
    Example("notebook", 2, 0.88, ("epoch",), name="function"),
)
ALWAYS = ("gang", "katib", "notebook")
FRAMEWORKS = (
    Framework(
        Example("torch", 2, 0.95, ("epoch", "loss")),
        "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime",
        Path(__file__).with_name("torch.Dockerfile"),
        time="epoch",
        every=1,
    ),
    Framework(
        Example("gradient-boosting", 2, 1.15, ("trees",)),
        "registry.example/gradient-boosting:1",
        EXAMPLES / "gradient-boosting" / "Dockerfile",
        time="trees",
        every=10,
    ),
)
SCRIPT = "command: [python3, train.py]"


class Reader:
    """Somebody who runs examples as their READMEs say, in copies of their folders."""

    def __init__(self, cluster: Cluster, namespace: Kubernetes, directory: Path) -> None:
        self._directory = directory
        self._environment = make_environment(cluster, namespace, directory)

    def copy(self, example: Example, *, shorten: bool) -> None:
        """Copies an example's folder, with fewer trials if it is to be short."""
        copy = self._directory / example.folder
        shutil.copytree(EXAMPLES / example.folder, copy, ignore=shutil.ignore_patterns("podtune-runs", "__pycache__"))
        for file in (*copy.glob("*.yaml"), *copy.glob("*.py")):
            text = file.read_text(encoding="utf-8")
            if shorten:
                text = re.sub(r"(maxTrials: |max_trials=)\d+", rf"\g<1>{example.few}", text)
                for long, short in SHORTER:
                    text = text.replace(long, short)
            file.write_text(text, encoding="utf-8")

    def replace(self, example: Example, texts: Mapping[str, str]) -> None:
        """Replaces texts of the copied manifest."""
        manifest = self._directory / example.folder / "experiment.yaml"
        written = manifest.read_text(encoding="utf-8")
        for text, other in texts.items():
            assert text in written, (manifest, text)
            written = written.replace(text, other)
        manifest.write_text(written, encoding="utf-8")

    def apply(self, example: Example) -> None:
        """Types the first command of the README."""
        block, (command, *_) = list_commands(example)
        if command == APPLY:
            [block] = (each for each in find_blocks(EXAMPLES / "README.md") if each.run_by == HERE)
            [command] = block.commands()
        run_typed(command, self._environment, self._directory / example.folder, place=block.place)

    def follow(self, example: Example) -> str:
        """Types the others, which end with the experiment; returns what the last one has printed."""
        block, (_, *commands) = list_commands(example)
        assert commands[0] == f"kubectl podtune watch {example.experiment}"
        return [run_typed(each, self._environment, self._directory, place=block.place) for each in commands][-1]


def list_commands(example: Example) -> tuple[Block, list[str]]:
    """The block of the README for clusters, and its commands."""
    [block] = (each for each in find_blocks(EXAMPLES / example.folder / "README.md") if each.run_by == HERE)
    return block, block.commands()


def run_examples(reader: Reader, namespace: Kubernetes, examples: Sequence[Example], *, shorten: bool) -> None:
    """Runs examples side by side, and looks at what each has come to."""
    for example in examples:
        reader.copy(example, shorten=shorten)
        reader.apply(example)
    follow_examples(reader, namespace, examples, shorten=shorten)


def follow_examples(reader: Reader, namespace: Kubernetes, examples: Sequence[Example], *, shorten: bool) -> None:
    """Waits for each example's end, and looks at what it has come to."""
    for example in examples:
        printed = reader.follow(example)
        experiment = namespace.get(EXPERIMENTS, example.experiment)
        trials = [trial for trial in namespace.list(TRIALS) if trial["spec"]["experiment"] == example.experiment]
        check_end(example, experiment, trials, printed)
        if not shorten:
            check_promise(example, experiment)
            ONCE_ALL_ARE_DONE.get(example.folder, check_nothing_more)(experiment, trials)


def check_end(example: Example, experiment: Object, trials: Sequence[Object], printed: str) -> None:
    """All trials have ended well, with what the script reports, and `best` has told of one."""
    assert condition(experiment, "Complete").get("status") == "True", experiment["status"]
    assert len(trials) == experiment["spec"]["search"]["maxTrials"]
    assert {trial["status"]["state"] for trial in trials} == {"TERMINATED"}, example
    for trial in trials:
        last = trial["status"]["lastResult"]
        assert {experiment["spec"]["objective"]["metric"], *example.metrics} <= last.keys(), (example, last)
    assert experiment["status"]["best"]["trial"] in printed
    PARTICULARS.get(example.folder, check_nothing_more)(experiment, trials)


def check_promise(example: Example, experiment: Object) -> None:
    """The best value is what the README says."""
    value, mode = float(experiment["status"]["best"]["value"]), experiment["spec"]["objective"]["mode"]
    assert value > example.best if mode == "max" else value < example.best, (example, value)


def check_nothing_more(experiment: Object, trials: Sequence[Object]) -> None:
    """For an example that shows nothing besides."""


def check_gang(experiment: Object, trials: Sequence[Object]) -> None:
    """Each trial was three pods, which have met."""
    assert {trial["status"]["lastResult"]["ranks"] for trial in trials} == {"3"}


def check_pods(experiment: Object, trials: Iterable[Object]) -> None:
    """There were as many pods as trials ran at once; a third one only in the place of one that was lost."""
    used = {trial["status"]["pod"]["uid"].partition("/")[0] for trial in trials}
    assert len(used) <= experiment["spec"]["maxConcurrentTrials"] + 1


def check_front(experiment: Object, trials: Sequence[Object]) -> None:
    """There is a front in place of one best trial."""
    assert experiment["status"]["paretoFront"]


def check_clones(experiment: Object, trials: Sequence[Object]) -> None:
    """A poor trial has gone on from the checkpoint of a good one."""
    assert any(entry["action"] == "EXPLOIT" for trial in trials for entry in trial["status"]["ledger"])


def check_retry(cluster: Cluster, namespace: Kubernetes, framework: Framework) -> None:
    """The first trial's second attempt went on from the checkpoint: no result is missing, and none came twice."""
    command = ("results", f"{framework.example.experiment}-0", "-o", "json", "--endpoint", cluster.s3.endpoint)
    rows = [json.loads(line) for line in namespace.podtune(*command).splitlines()]
    found = [(row["attempt"], row["metrics"][framework.time]) for row in rows]
    assert found == [(1 if number <= 2 else 2, framework.every * number) for number in range(1, len(rows) + 1)]
    assert len(rows) > 2


PARTICULARS = {
    "gang": check_gang,
    "warm-pods": check_pods,
    "several-objectives": check_front,
}
ONCE_ALL_ARE_DONE = {"pbt": check_clones}
"""On a busy machine, a short training is over before two members have been compared."""


@pytest.fixture
def reader(cluster: Cluster, namespace: Kubernetes, tmp_path: Path) -> Reader:
    return Reader(cluster, namespace, tmp_path)


def test_some_examples_work_as_their_readmes_say(reader: Reader, namespace: Kubernetes) -> None:
    run_examples(reader, namespace, [example for example in LIGHT if example.folder in ALWAYS], shorten=True)


@pytest.mark.long
def test_the_examples_come_to_what_their_readmes_promise(reader: Reader, namespace: Kubernetes) -> None:
    run_examples(reader, namespace, LIGHT, shorten=False)


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.example.folder)
def test_the_frameworks_come_to_what_their_readmes_promise_though_a_trial_fails(
    cluster: Cluster, reader: Reader, namespace: Kubernetes, framework: Framework
) -> None:
    example, image = framework.example, Image(framework.example.folder)
    cluster.build_image(framework.dockerfile, image.target, image.tag)
    cluster.load_image(image.tag)
    reader.copy(example, shorten=False)
    breaking = ["python3", "-c", (PROGRAMS / "breaking.py").read_text(encoding="utf-8"), "train.py"]
    reader.replace(example, {framework.named: image.tag, SCRIPT: f"command: {json.dumps(breaking)}"})
    reader.apply(example)
    follow_examples(reader, namespace, [example], shorten=False)
    check_retry(cluster, namespace, framework)
