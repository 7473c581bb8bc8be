"""The dialogue with the searcher: what it is told, what it is asked, and the Trials that come of its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podtune.api.experiment import ExperimentSpec
from podtune.api.names import TrialState
from podtune.runner.actions import CreateTrial, Outcome, Propose, Verdict
from podtune.runner.dispatch import Dispatch
from podtune.runner.proposals import Proposals, Tells
from podtune.runner.results import metrics_of, number
from podtune.runner.trial_machine import TrialMachine
from podtune.tuning.searchers.base import Tell, Unfinished


class Search:
    """Asks for configurations as there are places for them, and has each made a Trial."""

    def __init__(
        self, experiment: str, spec: ExperimentSpec, trials: Mapping[str, TrialMachine], dispatch: Dispatch
    ) -> None:
        """Takes in what the Trials record.

        Args:
            experiment: Name of the experiment.
            spec: Its spec.
            trials: All its trials.
            dispatch: Where actions are asked for.
        """
        self.spec = spec
        self._dispatch = dispatch
        told = [trial for trial in trials.values() if trial.saved.told is not None]
        self._told = {trial.name for trial in told}
        self._tells = Tells((trial.saved.told or 0, self._tell(trial)) for trial in told)
        self._proposals = Proposals(experiment, (trial.index for trial in trials.values()))
        self._searcher_failure = ""
        self._not_made: dict[str, str] = {}

    @property
    def hindrance(self) -> str:
        """What keeps Trials from being made at present; empty where nothing does."""
        return self._searcher_failure or next(iter(self._not_made.values()), "")

    @property
    def is_exhausted(self) -> bool:
        """Whether the searcher has no more configurations."""
        return self._proposals.exhausted

    @property
    def is_over(self) -> bool:
        """Whether every Trial that there will be is there."""
        all_made = self._proposals.exhausted or self._proposals.made >= self.spec.search.max_trials
        return all_made and not self._proposals.waiting

    def reserve_place(self) -> int:
        """A place in the order of tells for a trial that has come to its end."""
        return self._tells.reserve()

    def saved(self, trial: TrialMachine) -> None:
        """The API server has a trial's status: if that is its end, the searcher is to be told."""
        place = trial.saved.told
        if place is not None and trial.name not in self._told:
            self._told.add(trial.name)
            self._tells.durable(place, self._tell(trial))

    def trial_exists(self, trial: TrialMachine) -> None:
        """A Trial was made."""
        self._not_made.pop(trial.name, None)
        self._proposals.trial_exists(trial.index)

    def ask(self, places: int, unfinished: Iterable[TrialMachine], batch: int, now: float) -> None:
        """Asks for configurations.

        Args:
            places: How many places there are that no trial waits for.
            unfinished: The trials that are under way.
            batch: How many to ask for at a time, at most.
            now: The present time.
        """
        left = self.spec.search.max_trials - self._proposals.made
        count = min(places - len(self._proposals.waiting), left, batch)
        if count < 1 or self._proposals.exhausted:
            self._searcher_failure = ""  # it hinders nothing any more
            return
        if not self._dispatch.ready(("propose", ""), now):
            return
        under_way = (Unfinished(trial.index, trial.configuration, trial.attributes) for trial in unfinished)
        self._dispatch.ask(self._proposals.request(count, self._tells, under_way), now)

    def create_trials(self, now: float) -> None:
        """Has the proposals made Trials."""
        for index, spec in self._proposals.waiting.items():
            self._dispatch.ask(CreateTrial(self._proposals.trial_name(index), spec), now)

    def proposed(self, request: Propose, outcome: Outcome) -> None:
        """Hears of the searcher's answer; one to what was asked before the tells were made anew counts for nothing."""
        if outcome.verdict is not Verdict.DONE:
            self._searcher_failure = f"the searcher failed: {outcome.message}"
            return
        self._searcher_failure = ""
        if request.tells is self._tells.in_order:
            self._proposals.answered(request, outcome.proposals)

    def created(self, action: CreateTrial, outcome: Outcome) -> None:
        """Hears how the creation of a Trial went; one that is there all the same is no hindrance."""
        if outcome.verdict is not Verdict.DONE and action.spec.index in self._proposals.waiting:
            self._not_made[action.name] = f"a Trial can't be made: {outcome.message}"

    def _tell(self, trial: TrialMachine) -> Tell:
        failed = trial.saved.state is TrialState.ERROR
        return Tell(
            number=trial.index,
            configuration=trial.configuration,
            value=None if failed else number(metrics_of(trial.saved.last_result), self.spec.objective.metric),
            step=trial.saved.iteration,
            attributes=trial.attributes,
        )
