"""What the agent beside each trial costs: its real process, with and without a store, and the size of its image."""

from __future__ import annotations

import asyncio
import json
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from e2e.bench.measurement import Figure, Measurement
from e2e.bench.processor_time import resident_bytes_of, seconds_of
from e2e.bench.sync.sync_server import BUCKET, environment, running_server
from e2e.chaos.processes.child import start_module
from e2e.devcluster.building.builds import base_image, build_image
from e2e.devcluster.errors import ClusterError
from e2e.install import IMAGES, ROOT
from podtune.protocol import agent_environment as agent_env
from podtune.protocol.messages import Reply, parse_report
from podtune.trial import layout

AGENT_PROGRAM = "podtune.agent.entry"
IDLE_SECONDS = 10.0
START_SECONDS = 60.0
WEIGHTS_BYTES = 1 << 20
"""Of the checkpoint that comes with the result; where there is a store, its client has been at work before."""
REPEATS, FULL_REPEATS = 1, 3
"""The median of so many starts is taken."""


@dataclass(frozen=True)
class Use:
    """What one agent has used."""

    start_seconds: float
    idle_bytes: int


def measure(full: bool) -> Measurement:
    """Starts agents, has each report one result, and looks at it when it is idle."""
    repeats = FULL_REPEATS if full else REPEATS
    with tempfile.TemporaryDirectory(prefix="podtune-bench-") as name, running_server(Path(name)) as server:
        alone = _median([asyncio.run(use({})) for _ in range(repeats)])
        store = {agent_env.STORE: json.dumps({"bucket": BUCKET, "prefix": "agent", "endpoint": server.url})}
        storing = _median([asyncio.run(use({**environment(server.url), **store})) for _ in range(repeats)])
    figures = [
        Figure("agent's processor time until its first report", alone.start_seconds, "s"),
        Figure("agent's memory when idle", alone.idle_bytes / 1e6, "MB"),
        Figure("processor time until its first report, with a store", storing.start_seconds, "s"),
        Figure("memory when idle, after a checkpoint was stored", storing.idle_bytes / 1e6, "MB"),
    ]
    setting = f"The agent's process in this checkout's environment, median of {repeats}; idle: {IDLE_SECONDS:g} s later"
    try:
        figures.append(Figure("agent's image over its base", _image_bytes() / 1e6, "MB"))
    except ClusterError as error:
        return Measurement(f"{setting}; the image could not be built", figures, [f"agent's image: {error}"])
    return Measurement(setting, figures)


async def use(settings: dict[str, str]) -> Use:
    """Runs an agent until it has reported, and is idle.

    Raises:
        TimeoutError: It does not report.
    """
    reported = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        report = parse_report(await request.read())
        seq = report.results[-1].seq if report.results else 0
        if seq:
            reported.set()
        return web.Response(body=Reply(acked_seq=seq, durable_seq=seq).to_json(), content_type="application/json")

    application = web.Application()
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
    await runner.setup()
    with tempfile.TemporaryDirectory(prefix="podtune-bench-") as name:
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[0][1]
            return await _use(Path(name), {**settings, agent_env.RESULTS_URL: f"http://127.0.0.1:{port}"}, reported)
        finally:
            await runner.cleanup()


async def _use(home: Path, settings: dict[str, str], reported: asyncio.Event) -> Use:
    checkpoint = home / layout.CHECKPOINTS / "first"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights").write_bytes(bytes(WEIGHTS_BYTES))
    (home / layout.RESULTS).write_text(json.dumps({"value": 0.5, layout.CHECKPOINT_KEY: checkpoint.name}) + "\n")
    (home / "token").write_text("a.b.c")
    variables = {
        layout.ENV_DIRECTORY: str(home),
        layout.ENV_EXPERIMENT: "bench",
        layout.ENV_TRIAL: "bench-0",
        agent_env.TOKEN_FILE: str(home / "token"),
        agent_env.NAMESPACE: "bench",
        agent_env.POD_UID: "0",
        agent_env.EXPERIMENT_UID: "0",
        agent_env.OBJECTIVE_METRIC: "value",
        agent_env.TERMINATION_LOG: str(home / "words"),
        **settings,
    }
    with (home / "log").open("wb") as log:
        process = await start_module(AGENT_PROGRAM, "run", environment=variables, stdout=log, stderr=log)
    proc = Path("/proc") / str(process.pid)
    try:
        async with asyncio.timeout(START_SECONDS):
            await reported.wait()
        start_seconds = seconds_of(proc)
        await asyncio.sleep(IDLE_SECONDS)
        return Use(start_seconds, resident_bytes_of(proc))
    except (TimeoutError, OSError) as error:
        raise RuntimeError(f"the agent does not report: {(home / 'log').read_text()[-1000:]}") from error
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _median(uses: list[Use]) -> Use:
    middle = len(uses) // 2
    return Use(sorted(each.start_seconds for each in uses)[middle], sorted(each.idle_bytes for each in uses)[middle])


def _image_bytes() -> int:
    """What the layers of the agent's image weigh, unpacked, beyond those of the base image."""
    image = next(image for image in IMAGES if image.target == "agent")
    built = build_image(ROOT / "Dockerfile", image.target, image.tag)
    ours, base = _layers(built.path), _layers(base_image().path)
    return sum(size for digest, size in ours.items() if digest not in base)


def _layers(archive: Path) -> dict[str, int]:
    """Sizes of an image's layers by their digests."""
    with tarfile.open(archive) as files:
        manifest = files.extractfile("manifest.json")
        assert manifest is not None  # every archive of an image has one
        names = json.load(manifest)[0]["Layers"]
        sizes = {name: files.getmember(name) for name in names}
        return {member.name: member.size for member in sizes.values()}
