"""What is shown while the local cluster's tools and images are made, and making them side by side."""

from __future__ import annotations

import fcntl
import io
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from e2e import demo, prepare
from e2e.devcluster import kind, progress
from e2e.devcluster.building import builds, packages, tools
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.locks import locked
from e2e.devcluster.processes import follow
from e2e.devcluster.progress import Screen, Task, estimate_left, line_of, say_duration, say_left
from e2e.devcluster.side_by_side import Pipeline, Step, make_all


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks(clock: Clock) -> list[Task]:
    """The cluster's tools, a third compiled after 200 s, beside the third of four images."""
    compiled = Task("cluster tools", "packages", clock)
    clock.now += 50  # while it was found out what is to be compiled
    compiled.count_to(3600)
    clock.now += 152
    images = Task("images", clock=clock)
    images.count_to(4)
    images.done = 2
    building = Task("podtune-agent", clock=clock, detail="stage 1 of 2, step 3 of 9 (RUN)")
    clock.now += 48
    compiled.done = 1200
    return [compiled, images, building]


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            None,
            "cluster tools: 1,200 of 3,600 packages, 7 min left · images: 2 of 4, 48 s · "
            "podtune-agent: stage 1 of 2, step 3 of 9 (RUN), 48 s",
        ),
        (
            200,
            "cluster tools: 1,200 of 3,600 packages, 7 min left · images: 2 of 4, 48 s · "
            "podtune-agent: stage 1 of 2, step 3 of 9 (RUN), 48 s",
        ),
        (100, "cluster tools: 1,200/3,600, 7 min left · images: 2/4, 48 s · podtune-agent: 48 s"),
        (60, "cluster tools 33%, 7 min left · images 2/4 · podtune-agent"),
        (30, "cluster tools 33%, 7 min left…"),
    ],
)
def test_a_line_says_less_the_narrower_it_is_and_never_wraps(tasks: list[Task], columns: int | None, line: str) -> None:
    assert line_of(tasks, columns) == line
    assert columns is None or len(line) <= columns


@pytest.mark.parametrize(
    ("done", "total", "seconds", "left"),
    [
        (1200, 3600, 200, 400),
        (3599, 3600, 3599, 1),
        (0, 3600, 200, None),  # no rate yet
        (100, 3600, 9, None),  # too early for one
        (71, 3600, 60, None),  # too few for one
        (2, 4, 100, None),  # images differ too much from each other
        (3600, 3600, 600, None),  # linking: nothing is counted any more
    ],
)
def test_the_time_left_follows_from_the_rate_once_there_is_one(
    done: int, total: int, seconds: float, left: float | None
) -> None:
    assert estimate_left(done, total, seconds) == left


def test_times_are_said_no_more_precisely_than_they_are_known() -> None:
    assert [say_left(seconds) for seconds in (5, 60, 61, 400)] == [
        "<1 min left",
        "<1 min left",
        "2 min left",
        "7 min left",
    ]
    assert [say_duration(seconds) for seconds in (0.4, 59, 60, 552)] == ["0 s", "59 s", "1 min 0 s", "9 min 12 s"]


def test_without_a_terminal_there_are_plain_lines(clock: Clock) -> None:
    stream = io.StringIO()
    screen = Screen(stream, clock=clock)
    screen.say("building the cluster tools")
    with screen.task("cluster tools", "packages") as task:
        task.count_to(100)
        clock.now += 30
        task.done = 25
        screen.draw()
        screen.say("building localhost/podtune-agent:dev")
        clock.now += 60
    assert stream.getvalue().splitlines() == [
        "building the cluster tools",
        "cluster tools: 25 of 100 packages, 2 min left",
        "building localhost/podtune-agent:dev",
        "cluster tools: done in 1 min 30 s",
    ]


def test_a_terminal_shows_one_line_that_gives_way_to_what_is_said(clock: Clock) -> None:
    stream = io.StringIO()
    screen = Screen(stream, lambda _: 60, clock)
    clear = "\r\x1b[2K"
    with screen.task("base image"):
        clock.now += 5
        screen.draw()
        screen.say("installing buildah")
    assert stream.getvalue() == f"{clear}base image: 5 s{clear}installing buildah\n{clear}base image: 5 s{clear}"


@pytest.mark.parametrize(("columns", "period"), [(60, "_REDRAW_SECONDS"), (None, "_PLAIN_SECONDS")])
def test_what_is_under_way_is_shown_again_by_itself(
    monkeypatch: pytest.MonkeyPatch, columns: int | None, period: str
) -> None:
    monkeypatch.setattr(progress, period, 0.001)
    shown = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "base image" in text:
                shown.set()
            return super().write(text)

    with Screen(Stream(), lambda _: columns).task("base image"):
        assert shown.wait(60)


def test_nothing_is_said_where_nothing_takes_long(clock: Clock) -> None:
    stream = io.StringIO()
    screen = Screen(stream, clock=clock)
    before = threading.active_count()
    with screen.task("cluster tools"):
        clock.now += 9
    screen.draw()
    assert stream.getvalue() == ""
    assert threading.active_count() <= before + 1  # the thread that would have drawn is gone or on its way


def test_what_failed_is_not_said_to_be_done(clock: Clock) -> None:
    stream = io.StringIO()
    screen = Screen(stream, clock=clock)

    def build() -> None:
        with screen.task("cluster tools"):
            clock.now += 100
            raise ClusterError("no space left")

    with pytest.raises(ClusterError):
        build()
    assert stream.getvalue() == ""


def test_go_says_how_many_packages_it_will_compile_and_which_it_has(clock: Clock) -> None:
    task = Task("cluster tools", "packages", clock)
    listed = tools.PackagesToCompile(task)
    for line in ["go: downloading k8s.io/api v0.34.4", "go: downloading k8s.io/utils v0.0.1", "to compile: errors", "",
                 "to compile: k8s.io/api/core/v1", "", "to compile: k8s.io/kubernetes/cmd/kubelet"]:  # fmt: skip
        listed.heed(line)
    assert task.detail == "2 modules fetched"
    compilation = tools.Compilation(task, listed.found)
    assert (task.done, task.total, task.detail) == (0, 3, "")
    for line in ["errors", "# k8s.io/api/core/v1", "errors", "k8s.io/api/core/v1"]:
        compilation.heed(line)
    assert (task.done, task.total) == (2, 3)
    compilation.heed("k8s.io/kubernetes/cmd/kubelet")
    assert task.texts()[0] == "cluster tools: 3 of 3 packages, linking the programs, 0 s"


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("[1/3] STEP 2/14: RUN python3 -m venv /venv", "stage 1, step 2 of 14 (RUN)"),
        ("STEP 1/3: FROM scratch", "stage 1, step 1 of 3 (FROM)"),
        ("--> Using cache 846958fd34563016", ""),
    ],
)
def test_buildah_says_at_which_instruction_it_is(clock: Clock, line: str, detail: str) -> None:
    task = Task("podtune-agent", clock=clock)
    builds.heed_build(task, line)
    assert task.detail == detail


def test_pipelines_go_at_the_same_time_and_each_in_its_order() -> None:
    meeting = threading.Barrier(2, timeout=60)
    made: list[str] = []

    def meet(name: str) -> None:
        meeting.wait()
        made.append(name)

    images = [Step("the base image", lambda: meet("base")), Step("the agent", lambda: made.append("agent"))]
    make_all([Pipeline([Step("the tools", lambda: meet("tools"))]), Pipeline(images, "images")], Screen(io.StringIO()))
    assert sorted(made) == ["agent", "base", "tools"]
    assert made.index("base") < made.index("agent")


def test_a_failure_is_told_at_once_by_its_name_and_the_other_lane_ends_its_work() -> None:
    stream = io.StringIO()
    told = threading.Event()
    made: list[str] = []

    class Telling(Screen):
        def say(self, text: str) -> None:
            super().say(text)
            told.set()

    def fail() -> None:
        raise ClusterError("buildah bud: exit 1\n--- end of build.log\n    no such package")

    def go_on() -> None:
        assert told.wait(60)  # it ends only after the failure was told
        made.append("tools")

    steps = [Step("the agent", fail), Step("the examples", lambda: made.append("examples"))]
    with pytest.raises(ClusterError, match=r"^not made: the agent, the examples$"):
        make_all([Pipeline([Step("the tools", go_on)]), Pipeline(steps, "images")], Telling(stream))
    assert made == ["tools"]
    assert stream.getvalue() == ("error: the agent: buildah bud: exit 1\n--- end of build.log\n    no such package\n")


def test_a_mistake_of_ours_is_no_failed_step() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        make_all([Pipeline([Step("the tools", fail)])], Screen(io.StringIO()))


def test_a_long_command_is_heard_line_by_line_and_its_log_is_kept(tmp_path: Path) -> None:
    heard: list[str] = []
    log = tmp_path / "logs" / "build.log"
    follow(["sh", "-c", "echo one; echo two >&2"], log, heard.append, timeout=60)
    assert heard == ["one", "two"]
    assert log.read_text() == "one\ntwo\n"


def test_a_long_command_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    script = "for i in $(seq 1 40); do echo line $i; done; exit 3"
    with pytest.raises(ClusterError) as failed:
        follow(["sh", "-c", script], log, lambda _: None, timeout=60)
    lines = str(failed.value).splitlines()
    assert lines[0].endswith("exit 3")
    assert lines[1] == f"--- end of {log}"
    assert lines[2:] == [f"    line {number}" for number in range(26, 41)]


def test_a_long_command_is_ended_when_it_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = threading.Event()

    class OnceItSpeaks(threading.Timer):
        """Its time is up when it has said something, however long that takes."""

        def run(self) -> None:
            said.wait(60)
            self.function()

    monkeypatch.setattr("e2e.devcluster.processes.threading.Timer", OnceItSpeaks)
    words = ["sh", "-c", "echo begun; exec sleep 600"]
    with pytest.raises(ClusterError, match=r"not done within 0 s(.|\n)*begun"):
        follow(words, tmp_path / "build.log", lambda _: said.set(), timeout=0)


def test_who_waits_for_a_lock_says_what_for(tmp_path: Path) -> None:
    stream = io.StringIO()
    said = threading.Event()
    entered = threading.Event()

    class Telling(Screen):
        def say(self, text: str) -> None:
            super().say(text)
            said.set()

    def wait() -> None:
        with locked(tmp_path / "lock", "building the cluster tools", Telling(stream)):
            entered.set()

    with locked(tmp_path / "lock", "building the cluster tools", Screen(stream)):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert said.wait(60)
        assert not entered.is_set()
    waiting.join(60)
    assert entered.is_set()
    assert stream.getvalue() == "waiting: somebody else is building the cluster tools\n"
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # and leaves it free


def test_nothing_is_prepared_or_said_when_the_tools_are_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kind, "is_used", lambda: False)
    monkeypatch.setattr(tools, "installed", lambda _: Path("/tools"))
    monkeypatch.setattr(prepare, "image_steps", lambda: pytest.fail("images are none of its business now"))
    assert prepare.main() == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("docker", "made"),
    [(False, ["the base image", "cluster", "kwok", "operator", "agent", "dashboard", "examples"]),
     (True, ["clients", "operator", "agent", "dashboard", "examples"])],
)  # fmt: skip
def test_tools_and_images_are_made_where_there_are_no_tools(
    monkeypatch: pytest.MonkeyPatch, docker: bool, made: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(kind, "is_used", lambda: docker)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(tools, "installed", lambda _: None)
    monkeypatch.setattr(tools, "ensure", asked.append)
    monkeypatch.setattr(builds, "base_image", lambda: asked.append("the base image"))
    monkeypatch.setattr(builds, "build_image", lambda file, target, tag: asked.append(target))
    monkeypatch.setattr(kind, "build_image", lambda file, target, tag, arguments, context: asked.append(target))
    prepare.prepare()
    assert sorted(asked) == sorted(made)


def test_who_may_not_start_a_cluster_is_told_before_ten_minutes_are_spent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kind, "is_used", lambda: False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(tools, "installed", lambda _: None)
    monkeypatch.setattr(tools, "ensure", pytest.fail)
    assert prepare.main() == 1
    assert "needs root" in capsys.readouterr().err


def test_a_build_of_tools_shows_how_many_of_gos_packages_are_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    task = Task("kwok tools", "packages", clock)
    shown: list[str] = []

    def go_on(words: list[str | Path], log: Path, heed: Callable[[str], None], **options: Any) -> None:
        lines = {"list": ["go: downloading a v1.0.0", "to compile: a", "to compile: b"], "install": ["a", "b"]}
        for line in lines[str(words[1])]:
            heed(line)
            shown.append(f"{task.done}/{task.total} {task.detail}")
        if words[1] == "install":
            program = Path(options["environment"]["GOBIN"]) / "kwok"
            program.parent.mkdir(parents=True)
            program.touch(0o755)

    monkeypatch.setattr(tools, "follow", go_on)
    monkeypatch.setattr(tools, "find_go", lambda: Path("go"))
    monkeypatch.setattr(tools, "screen", SimpleNamespace(say=shown.append, task=lambda *_: nullcontext(task)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (tools.ensure("kwok") / "kwok").exists()
    assert shown[1:] == ["0/None 1 modules fetched"] * 3 + ["1/2 ", "2/2 linking the programs"]


def test_a_build_of_an_image_shows_at_which_instruction_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock
) -> None:
    stream = io.StringIO()
    screen = Screen(stream, clock=clock)

    def go_on(command: object, log: Path, heed: Callable[[str], None], **options: Any) -> None:
        for line in ["STEP 1/2: FROM base", "STEP 2/2: RUN pip install -r requirements.txt", "Collecting pip"]:
            clock.now += 1
            heed(line)
            screen.draw()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(builds, "follow", go_on)
    monkeypatch.setattr(builds, "screen", screen)
    monkeypatch.setattr(builds, "base_image", lambda: SimpleNamespace(tag="localhost/podtune-base:1", key="1"))
    monkeypatch.setattr(packages, "ensure_images", lambda: None)
    monkeypatch.setattr(builds, "_buildah_has", lambda tag: True)
    monkeypatch.setattr(builds, "_buildah_command", lambda *words: (list(words), {}))
    monkeypatch.setattr(builds, "_export", lambda tag, archive: archive.path.touch())
    dockerfile = tmp_path / "Dockerfile"
    dockerfile.write_text("FROM base")
    (tmp_path / "podtune" / "images" / "localhost_podtune-agent_dev").mkdir(parents=True)
    builds.build_image(dockerfile, "agent", "localhost/podtune-agent:dev")
    assert stream.getvalue().splitlines() == [
        "building localhost/podtune-agent:dev",
        "podtune-agent: stage 1, step 1 of 2 (FROM), 1 s",
        "podtune-agent: stage 1, step 2 of 2 (RUN), 2 s",
        "podtune-agent: stage 1, step 2 of 2 (RUN), 3 s",
    ]


def test_images_are_counted_while_the_tools_are_built_beside_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    meeting = threading.Barrier(2, timeout=60)

    def build(*_: object) -> None:
        clock.now += 5
        progress.screen.draw()

    def make_base() -> None:
        meeting.wait()  # nobody comes where the images are made after the tools
        build()

    monkeypatch.setattr(progress.screen, "_clock", clock)
    monkeypatch.setattr(kind, "is_used", lambda: False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(tools, "installed", lambda name: Path("/tools") if name == "kwok" else None)
    monkeypatch.setattr(tools, "ensure", lambda name: meeting.wait())
    monkeypatch.setattr(builds, "base_image", make_base)
    monkeypatch.setattr(builds, "build_image", build)
    assert prepare.main() == 0
    assert capsys.readouterr().err.splitlines() == [
        "images: 0 of 5, 5 s",
        "images: 1 of 5, 10 s",
        "images: 2 of 5, 15 s",
        "images: 3 of 5, 20 s",
        "images: 4 of 5, 25 s",
        "images: done in 25 s",
    ]


def test_the_demo_begins_with_what_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ClusterError("no space left")

    monkeypatch.setattr(prepare, "prepare", fail)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("the cluster comes after what it is made of"))
    assert demo.main() == 1
    assert "error: no space left" in capsys.readouterr().err
