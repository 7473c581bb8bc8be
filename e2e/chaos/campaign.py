"""Runs perturbations, many beside each other, and tells of each."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from e2e.chaos.api import Api
from e2e.chaos.groups.catalog import undisturbed
from e2e.chaos.groups.group import Group
from e2e.chaos.invariants import Ending
from e2e.chaos.perturbation import Perturbation
from e2e.chaos.processes.forks import ForkServers
from e2e.chaos.testbed import PerturbationResult, Testbed

TESTBEDS_AT_ONCE = 2
UNDISTURBED = "undisturbed"


class Campaign:
    """All groups, one after the other but for a few beside each other."""

    def __init__(self, api: Api, directory: Path, seed: int, tell: Callable[[str, PerturbationResult], None]) -> None:
        """Makes a campaign.

        Args:
            api: The API server.
            directory: Where the operators' logs go.
            seed: From which the seeds of all perturbations follow.
            tell: Is told of each result, with its group's name.
        """
        self._api = api
        self._directory = directory
        self._seed = seed
        self._tell = tell
        self._prefix = f"chaos-{uuid.uuid4().hex[:5]}"
        self._forks = ForkServers()
        self._endings: dict[str, Ending] = {}
        self.recoveries: list[float] = []
        self.results: dict[str, list[PerturbationResult]] = {}

    async def run(self, groups: Sequence[Group]) -> None:
        """Runs them all; the undisturbed runs first, and nothing else if one of those breaks an invariant."""
        await self._forks.start()
        try:
            await self._run(groups)
        finally:
            await self._forks.stop()

    async def _run(self, groups: Sequence[Group]) -> None:
        wanted = {perturbation.scenario for group in groups for perturbation in group.perturbations}
        first = [perturbation for perturbation in undisturbed() if perturbation.scenario in wanted]
        await self._run_group(Group(UNDISTURBED, len(first), tuple(first)))
        if problems(self.results):
            return  # nothing can be held to them
        self._endings = {v.perturbation.scenario: v.ending for v in self.results[UNDISTURBED]}
        free = asyncio.Semaphore(TESTBEDS_AT_ONCE)

        async def run(group: Group) -> None:
            async with free:
                await self._run_group(group)

        async with asyncio.TaskGroup() as tasks:
            for group in groups:
                tasks.create_task(run(group))

    async def _run_group(self, group: Group) -> None:
        directory = self._directory / group.name
        directory.mkdir(parents=True, exist_ok=True)
        self.results[group.name] = []
        testbed = Testbed(self._api, self._forks, f"{self._prefix}-{group.name}", directory)
        async with testbed.running():
            slots = asyncio.Semaphore(group.at_once)
            async with asyncio.TaskGroup() as tasks:
                for perturbation in group.perturbations:
                    tasks.create_task(self._run_one(group, testbed, perturbation, slots))
        self.recoveries += testbed.operators.recoveries

    async def _run_one(
        self, group: Group, testbed: Testbed, perturbation: Perturbation, slots: asyncio.Semaphore
    ) -> None:
        async with slots:
            undisturbed = self._endings.get(perturbation.scenario)
            result = await testbed.perturb(perturbation, perturbation.seed(self._seed), undisturbed)
        self.results[group.name].append(result)
        self._tell(group.name, result)


def sample(groups: Iterable[Group], every: int) -> tuple[Group, ...]:
    """Every so many of each group's perturbations."""
    return tuple(replace(group, perturbations=group.perturbations[::every]) for group in groups)


def only(groups: Iterable[Group], ids: Sequence[str]) -> tuple[Group, ...]:
    """Those whose id begins with one of these, or lies in a group of that name."""
    chosen = (
        replace(
            group,
            perturbations=tuple(
                p for p in group.perturbations if any(group.name == i or p.id.startswith(i) for i in ids)
            ),
        )
        for group in groups
    )
    return tuple(group for group in chosen if group.perturbations)


def problems(results: Mapping[str, Sequence[PerturbationResult]]) -> list[PerturbationResult]:
    """The results that are bad."""
    return [result for found in results.values() for result in found if result.problems]
