"""An agent without files and processes: the state of the real one, `podtune.agent.state.attempt`, on the harness's
event loop, so that hundreds fit onto two processors.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from e2e.chaos.ground_truth import AttemptTruth, GroundTruth
from e2e.chaos.polling import until
from podtune.agent.state.attempt import Attempt
from podtune.agent.state.result_line import ResultLine
from podtune.protocol.checkpoint import CheckpointRef
from podtune.protocol.checkpoint_queue import compute_backlog_time
from podtune.protocol.fields import ProtocolError
from podtune.protocol.messages import (
    UNACKED_PREFIX,
    CheckpointCommit,
    Reply,
    Restored,
    encode_result,
    parse_reply,
)
from podtune.simulation.uploads import OUT_OF_TIME

ANSWER_SECONDS = 5.0
ZOMBIE_SECONDS = 1.5
PATIENCE = 2.0
"""Seconds that an operator that does not answer is waited for once the program has ended and all is stored."""


@dataclass(frozen=True)
class Uploads:
    """How the uploads of an attempt go.

    Attributes:
        seconds: How long one takes, about.
        stuck_from: The iteration from which on none comes to an end; 0 for none.
        drain: Seconds that they may go on once the program has ended.
    """

    seconds: float = 0.1
    stuck_from: int = 0
    drain: float = 20.0


class SimulatedAgent:
    """The agent of one attempt."""

    def __init__(
        self,
        truth: GroundTruth,
        attempt: AttemptTruth,
        *,
        metric: str,
        url: str,
        token: Callable[[], str],
        home: str,
        uploads: Uploads,
        session: aiohttp.ClientSession,
        rng: random.Random,
    ) -> None:
        """Makes an agent.

        Args:
            truth: What has happened in the experiment.
            attempt: The same of this attempt.
            metric: What its results tell.
            url: Where reports are posted.
            token: The pod's token.
            home: Place of the attempt in the bucket; empty without one.
            uploads: How its uploads go.
            session: For its posts.
            rng: Draws its jitter.
        """
        self._truth = truth
        self._own = attempt
        self._metric = metric
        self._url = url
        self._token = token
        self._home = home
        self._uploads = uploads
        self._session = session
        self._random = rng
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.attempt = Attempt(attempt.uid, metric, has_store=bool(home))
        self.attempt.begin(time.time())
        self.attempt.set_restored(Restored(), attempt.restored)
        self.log: list[str] = []
        self.words = ""
        """What it has written down for the case that it is killed."""

    def set_restored(self, restored: Restored) -> None:
        """Learns what it started from."""
        self.attempt.set_restored(restored, restored.step)

    async def start(self) -> None:
        """Begins to post and to upload."""
        self._tasks = [asyncio.ensure_future(self._post_all()), asyncio.ensure_future(self._upload_all())]

    @property
    def wants_checkpoint(self) -> bool:
        """Whether a checkpoint is asked for."""
        return self.attempt.wants["shouldCheckpoint"]

    @property
    def wants_stop(self) -> bool:
        """Whether the program is asked to stop."""
        return self.attempt.wants["shouldStop"]

    def say_done(self) -> None:
        """The program says that it is done."""
        self.attempt.done = True

    def result(self, step: int, value: float, *, checkpoint: bool) -> None:
        """The program reports a result."""
        name = f"step-{step}" if checkpoint else None
        line = ResultLine({self._metric: value, "training_iteration": step}, name)
        self.attempt.add(line, time.time())
        self._own.values[step] = value
        if checkpoint:
            self._own.reported.append(step)
        self._changed.set()

    async def until_acknowledged(self) -> None:
        """Waits until the operator has taken in everything, checkpoints included, or has had enough."""
        attempt = self.attempt
        await until(
            lambda: (
                attempt.fenced
                or (attempt.outbox.is_acked and attempt.checkpoints.is_stored and not attempt.checkpoints.commits)
            ),
            interval=0.02,
        )

    async def end(self) -> str:
        """The program has ended: stores and delivers what can be in time, and returns the final commit."""
        attempt = self.attempt
        attempt.start_draining()
        if self.wants_stop:
            attempt.checkpoints.give_up_all_but_newest()
        self.words = attempt.build_final_commit().to_json()
        self._changed.set()
        await self._store_rest()
        await until(lambda: attempt.is_delivered, PATIENCE, interval=0.02)
        self.die()
        self.log += [f"{UNACKED_PREFIX}{encode_result(result)}" for result in attempt.outbox.release()]
        self.words = attempt.build_final_commit().to_json()
        return self.words

    @property
    def is_storing(self) -> bool:
        """Whether a checkpoint is on its way into the bucket."""
        return not self.attempt.checkpoints.is_stored

    async def _store_rest(self) -> None:
        """Goes on with what is on its way, when time is short with the newest alone, until no time is left."""
        attempt, drain = self.attempt, self._uploads.drain
        backlog = compute_backlog_time(drain)
        if await until(lambda: not self.is_storing or attempt.fenced, backlog, interval=0.02):
            return
        attempt.checkpoints.give_up_all_but_newest()
        if await until(lambda: not self.is_storing or attempt.fenced, drain - backlog, interval=0.02):
            return
        self._break_off()

    def _break_off(self) -> None:
        """There is no time left: what is on its way will not be stored."""
        _post, upload = self._tasks
        upload.cancel()
        self.attempt.checkpoints.retry()
        self.attempt.set_store_problem(OUT_OF_TIME)
        self._changed.set()

    def die(self) -> None:
        """It is gone without a word."""
        for task in self._tasks:
            task.cancel()

    def fall_silent(self) -> None:
        """The network around it breaks."""
        self.die()

    async def report_after_removal(self, step: int, value: float) -> None:
        """Comes back although its pod is gone: a zombie, with a result and a checkpoint that nobody has heard of."""
        self.attempt.record_lost_report()
        self.attempt.add(ResultLine({self._metric: value, "training_iteration": step}, f"step-{step}"), time.time())
        await self.start()
        await asyncio.sleep(ZOMBIE_SECONDS)
        self.die()

    async def _post_all(self) -> None:
        wait = 0.25
        while not self.attempt.fenced:
            due = self.attempt.compute_next_report_time() - time.monotonic()
            if due > 0:
                self._changed.clear()
                try:
                    async with asyncio.timeout(due):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            wait = await self._post(wait)

    async def _post(self, wait: float) -> float:
        """Posts once; returns how long to wait after a failure the next time."""
        report = self.attempt.build_report(time.monotonic())
        try:
            timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
            headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
            async with self._session.post(self._url, data=report.to_json(), headers=headers, timeout=timeout) as answer:
                body = await answer.read()
                status = answer.status
            if status == 409:
                self.attempt.fenced = True
                return wait
            reply = parse_reply(body) if status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError, ProtocolError):
            reply = None
        if reply is None:
            self.attempt.record_lost_report()
            longest = 0.5 if self.attempt.phase == "Draining" else 8.0
            await asyncio.sleep(min(wait, longest) * self._random.uniform(0.5, 1.0))
            return min(2 * wait, 8.0)
        self._take(report, reply)
        return 0.25

    def _take(self, report: object, reply: Reply) -> None:
        self._truth.answered(self._own, report, reply)  # type: ignore[arg-type]
        self.attempt.take_reply(reply, time.monotonic())
        if self.attempt.discards:
            self._stop_storing()
        self._keep(reply)
        self._changed.set()

    def _stop_storing(self) -> None:
        """No checkpoint of the trial is kept: what is on its way is broken off."""
        _post, upload = self._tasks
        upload.cancel()
        self.attempt.checkpoints.give_up()

    def _keep(self, reply: Reply) -> None:
        """Deletes checkpoints that are neither kept nor newer than the newest that is; where none is kept, all."""
        discards = self.attempt.discards
        if not reply.kept and not discards:
            return
        prefix = self._home.rpartition("/")[0] + "/"
        kept_steps = [self._truth.bucket[uri] for uri in reply.kept or () if uri in self._truth.bucket]
        newest = max(kept_steps, default=0)
        for uri, step in list(self._truth.bucket.items()):
            if uri.startswith(prefix) and uri not in (reply.kept or ()) and (discards or step < newest):
                del self._truth.bucket[uri]
                self._truth.deleted.append(uri)

    async def _upload_all(self) -> None:
        while True:
            if not self.attempt.checkpoints.has_work:
                await asyncio.sleep(0.02)
                continue
            pending = self.attempt.checkpoints.start()
            if 0 < self._uploads.stuck_from <= pending.step:
                await asyncio.Event().wait()  # until it is broken off
            await asyncio.sleep(self._uploads.seconds * self._random.uniform(0.5, 1.5))
            ref = CheckpointRef(f"{self._home}/{pending.step}", f"sha256:{pending.step:064x}", pending.step)
            commit = CheckpointCommit(ref, pending.seq, pending.metric)
            self._truth.bucket[ref.uri] = pending.step
            self._own.committed.append(commit)
            self.attempt.commit(commit)
            if self.words:
                self.words = self.attempt.build_final_commit().to_json()
            self._changed.set()
