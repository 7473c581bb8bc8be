"""The dialogue with the searcher: what it observes, what it is asked, and the Trials created from its answers.

    search.ask(slots, …)                a request, with how many observations the searcher is to know (`Propose`)
    answers = session.answer(request)   tells the searcher what it does not know yet, and asks it
    search.record_proposals(request, …) each answer becomes a Trial, as there are slots (`create_trials`)
    search.on_status_saved(trial)       what the Trial has recorded is observed: the next request tells of it

A searcher answers from what it knows, so which observations it had belongs to each proposal. That is written into the
Experiment's status before the searcher is asked, and into the Trial that comes of the answer. A restarted operator
finds there what had been asked for, and asks the same again of a searcher that has been told the same: a proposal that
was made ahead and lost comes out as it was (decision 9).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from podtune.api.names import ExperimentReason, TrialState
from podtune.api.pods.parameter_text import format_display_name
from podtune.api.resources.experiment import ExperimentSpec, ProposalRequest
from podtune.api.resources.trial import ProposalSource, TrialSpec
from podtune.api.resources.trial_numbers import MAX_ADDED, count_repeats, find_number, is_added
from podtune.api.tuning.prior_knowledge import MAX_INITIAL
from podtune.api.tuning.search_space import parse_configuration
from podtune.protocol.messages import read_number
from podtune.runner.action_queue import EXPERIMENT, ActionQueue
from podtune.runner.actions import ActionResult, ActionStatus, CreateTrial, EmitEvent, LoadWarmStart, Propose
from podtune.runner.checkpoints.former_trials import FormerTrials
from podtune.runner.experiment.status_text import ProposalBlocker
from podtune.runner.search.observation_log import ObservationLog, average
from podtune.runner.search.origins import Origin
from podtune.runner.search.proposals import PendingTrials, Proposals
from podtune.runner.settings import RunnerSettings
from podtune.runner.steps import BuildSteps
from podtune.runner.trial.machine import TrialMachine
from podtune.runner.trial.results import parse_metrics
from podtune.tuning.searchers.base import Observation, PendingTrial, Proposal, Searcher
from podtune.tuning.searchers.factory import learns_from_results, learns_from_rungs, make_searcher
from podtune.tuning.searchers.initial import propose_initial
from podtune.tuning.searchers.lazy_view import LazyView
from podtune.tuning.searchers.spaces.active_space import ActiveSpace

Trial = TypeVar("Trial", Observation, PendingTrial)

MAX_RUNNING = 1024
"""How many trials under way the searcher sees at most, the newest ones: a Trial records which they were."""
END = -1
"""Stands for a trial's end, where others stand for one of its rungs."""
SLOTS_AHEAD = 16
"""One proposal is made ahead for this many slots, or part of them."""


class SearcherSession:
    """Has a searcher observe everything once, in order, and replaces one that knows too much for a request.

    Not safe for concurrent use.
    """

    def __init__(self, spec: ExperimentSpec) -> None:
        """Knows nothing yet.

        Args:
            spec: The experiment that is searched for.
        """
        self.spec = spec
        self._searcher: Searcher | None = None
        self._observations: Sequence[Observation] = ()
        self._observed = 0

    def answer(self, request: Propose) -> tuple[Proposal, ...]:
        """Has the searcher observe what is new to it, and asks it for configurations, one after the other.

        What comes from `search.initial` needs no searcher; it only sees that this is under way.

        Returns:
            As many as were requested, or fewer if the space is exhausted.

        Raises:
            NoConfiguration: There is none that could be proposed.
        """
        searcher = self._prepare(request)
        for observation in request.observations[self._observed : request.observed]:
            if observation.number < 0:
                searcher.skip(observation.configuration)
            searcher.tell(_as_searcher_knows(observation, request))
        self._observed = request.observed
        pending = list(request.pending)
        answers: list[Proposal] = []
        for position, origin in enumerate(request.origins, start=request.first):
            proposed = self._propose(origin, searcher, pending, request)
            if proposed is None:
                break
            answers.append(proposed)
            pending.append(PendingTrial(position, proposed.configuration, proposed.attributes))
        return tuple(answers)

    def _prepare(self, request: Propose) -> Searcher:
        """The searcher, a new one if it knows more than it may for this request."""
        outdated = self._observations is not request.observations or self._observed > request.observed
        if self._searcher is None or outdated:
            self._searcher = make_searcher(self.spec, request.skipped)
            self._observations, self._observed = request.observations, 0
        return self._searcher

    def _propose(
        self, origin: Origin, searcher: Searcher, pending: Sequence[PendingTrial], request: Propose
    ) -> Proposal | None:
        if origin.source is ProposalSource.INITIAL:
            space = ActiveSpace(self.spec.parameters, self.spec.constraints)
            return propose_initial(space, self.spec.search.initial[origin.position])
        return searcher.ask(origin.position, LazyView(pending, lambda trial: _as_searcher_knows(trial, request)))


def _as_searcher_knows(trial: Trial, request: Propose) -> Trial:
    """A trial with the number that the searcher knows it by: below 0 where it has not proposed it."""
    if is_added(trial.number):
        return replace(trial, number=-trial.number - MAX_INITIAL)
    if trial.number < 0:
        return replace(trial, number=trial.number - MAX_INITIAL - MAX_ADDED)
    origin = request.find_origin(trial.number)
    return replace(trial, number=origin.number) if origin.number != trial.number else trial


class Search:
    """Asks for configurations as there are slots for them, and has each made a Trial.

    Some are asked for ahead, so that a slow searcher holds nothing up. With a single slot none is: it would not know
    the one trial that it is to learn from.
    """

    def __init__(
        self,
        experiment: str,
        spec: ExperimentSpec,
        actions: ActionQueue,
        settings: RunnerSettings,
        *,
        prior_observations: Sequence[Observation] | None = (),
        former: FormerTrials | None = None,
    ) -> None:
        """Knows of no Trial yet: see `restore`.

        Args:
            experiment: Name of the experiment.
            spec: Its spec.
            actions: Where actions are asked for.
            settings: Times and limits.
            prior_observations: What an earlier experiment has found; None where that has to be looked up first.
            former: Trials that were deleted and are recreated.
        """
        self.spec = spec
        self.learns_from_rungs = learns_from_rungs(spec)
        """Whether the searcher is told of values at rungs, before trials have ended."""
        self.learns_from_results = learns_from_results(spec)
        """Whether it is told of all results, before trials have ended."""
        self._actions = actions
        self._settings = settings
        self._former = former or FormerTrials()
        self._repeats = spec.search.repeats
        self._proposals = Proposals(experiment, spec)
        self._pending = PendingTrials()
        self._ended: defaultdict[int, dict[int, Observation]] = defaultdict(dict)
        self._logged: set[tuple[str, int]] = set()
        self._prior_observations = prior_observations or ()
        self._log = ObservationLog()
        self.is_informed = prior_observations is not None
        """Whether it is known what an earlier experiment has found."""
        self._wait_for = 0
        self._wait_until = 0.0
        self._failure: ProposalBlocker | None = None
        self._is_needed = False
        self._not_made: dict[str, ProposalBlocker] = {}
        self.to_record: ProposalRequest | None = None
        """What the Experiment's status must record before the searcher is asked; None if nothing."""

    def restore(self, trials: Collection[TrialMachine]) -> BuildSteps:
        """Takes in what all Trials record, in steps.

        Args:
            trials: All Trials, in the order of their indexes.
        """
        by_name: dict[str, TrialMachine] = {}
        seqs: list[tuple[int, str, int]] = []
        for trial in trials:
            by_name[trial.name] = trial
            if not is_added(trial.index):
                self._proposals.add_trial(trial.spec)
            self._begin(trial)
            seqs += self._list_seqs(trial)
            yield
        observations: list[tuple[int, Observation | None]] = []
        for seq, name, rung in sorted(seqs):
            self._logged.add((name, rung))
            observations.append((seq, self._find_observation(by_name[name], rung)))
            yield
        self._log = ObservationLog(observations, self._prior_observations)
        self._end_pending(self._log.in_order)

    @property
    def blocker(self) -> ProposalBlocker | None:
        """What keeps Trials from being made at present."""
        found = (self._failure if self._is_needed else None) or next(iter(self._not_made.values()), None)
        if found is None and self.untried:
            return ProposalBlocker(ExperimentReason.TRIAL_LIMIT_REACHED, self.untried)
        return found

    @property
    def untried(self) -> str:
        """What `search.initial` holds that maxTrials has no room for; empty where there is nothing."""
        count = self._proposals.untried_entries if self._room <= 0 else 0
        if not count:
            return ""
        what = "the last configuration" if count == 1 else f"the last {count} configurations"
        wanted = self.spec.search.trial_limit + count * self._repeats
        return f"{what} of search.initial had no room in maxTrials; raise it to {wanted} to try them"

    @property
    def is_outdated(self) -> bool:
        """Whether what is known of the proposals has to be made anew of the Trials."""
        return self._proposals.is_outdated

    @property
    def is_exhausted(self) -> bool:
        """Whether the searcher has no more configurations."""
        return self._proposals.exhausted

    @property
    def exhaustion(self) -> str:
        """What was tried, where nothing is left to try."""
        if not self._proposals.present:
            return "nothing is left to try: the results of the whole space are known"
        tried = f"all {self._proposals.present // self._repeats} configurations of the space were tried"
        return tried if self._repeats == 1 else f"{tried} {self._repeats} times each"

    @property
    def to_come(self) -> int:
        """How many Trials may still be made."""
        return len(self._proposals.waiting) if self._proposals.exhausted else max(0, self._room)

    def is_making_one_before(self, index: int) -> bool:
        """Whether a Trial with a lower index is being made."""
        return any(earlier < index and self._is_created(earlier) for earlier in self._proposals.waiting)

    @property
    def is_over(self) -> bool:
        """Whether every Trial that there will be is there."""
        if self._room > 0 and (self._proposals.waiting or not self._proposals.exhausted):
            return False
        return not any(self._is_created(index) for index in self._proposals.waiting)

    def list_own_observations(self, start: int) -> Sequence[Observation]:
        """The observations of the experiment's own trials, in the order that they record, from a position in it on."""
        return self._log.in_order[self._log.prior + start :]

    def reserve_seq(self) -> int:
        """Reserves a sequence number for the observation of a trial that has ended."""
        return self._log.reserve()

    def on_status_saved(self, trial: TrialMachine) -> None:
        """The API server has a trial's status: if the trial has ended, the searcher must observe it."""
        for seq, name, rung in self._list_seqs(trial):
            if (name, rung) not in self._logged:
                self._logged.add((name, rung))
                self._end_pending(self._log.record(seq, self._find_observation(trial, rung)))

    def add_trial(self, trial: TrialMachine) -> None:
        """A Trial was made."""
        self._not_made.pop(trial.name, None)
        self._former.record_recreation(trial.name)
        if not is_added(trial.index):
            self._proposals.add_trial(trial.spec)
        self._begin(trial)

    def update_configuration(self, trial: TrialMachine) -> None:
        """A user has changed the configuration of a trial that is under way."""
        number = find_number(trial.index, self._repeats)
        if number in self._pending:
            self._pending.begin(PendingTrial(number, trial.configuration, trial.attributes))

    def ask(self, slots: int, recorded: ProposalRequest | None, now: float) -> None:
        """Asks for configurations.

        Args:
            slots: How many slots there are that no trial waits for.
            recorded: What the Experiment's status says was last asked for.
            now: The present time.
        """
        self.to_record = None
        self._is_needed = slots > len(self._proposals.waiting)
        count = self._count_wanted(slots)
        if count < 1:
            self._failure = None  # it blocks nothing any more
            return
        if not self.is_informed:
            self._learn(now)
            return
        if not self._actions.is_ready(("propose", ""), now):
            return
        if not self.spec.search.learns:
            self._request(self._proposals.find_next_numbers(count), self._log.end, now)
            return
        numbers = self._proposals.find_open_numbers(recorded)
        if numbers and recorded is not None:
            self._request(numbers[: self._left], recorded.observed_seq, now, recorded.last)
        elif self._has_heard_all(now):
            numbers = self._proposals.find_next_numbers(count)
            self.to_record = ProposalRequest(first=numbers[0], last=numbers[-1], observed_seq=self._log.end)

    def create_trials(self, slots: int, now: float) -> None:
        """Has as many proposals made Trials as there are slots for, and all repeats of those that were begun."""
        before, self._not_made = self._not_made, {}  # what is not wanted at present blocks nothing
        if slots > 0 and self._proposals.waiting and self._is_to_hear_first and not self._has_heard_all(now):
            return
        room, chosen = self._room, -1
        for index in sorted(self._proposals.waiting):
            number = index // self._repeats
            if room > 0 and slots > 0:
                chosen = number
            elif self._repeats == 1:
                return
            if number == chosen or self._proposals.is_begun(number):
                name = self._proposals.format_trial_name(index)
                proposed = self._name(self._proposals.waiting[index])
                self._actions.enqueue(CreateTrial(name, self._former.add_former(name, proposed)), now)
                if name in before:
                    self._not_made[name] = before[name]
            slots -= 1
            room -= 1

    def _name(self, proposed: TrialSpec) -> TrialSpec:
        """Gives a trial its name for people, where the template has one."""
        name = format_display_name(self.spec.trial_template.display_name, proposed.parameters)
        return proposed.model_copy(update={"display_name": name}) if name else proposed

    def record_prior_observations(self, result: ActionResult, now: float) -> None:
        """Hears what an earlier experiment has found, or why that is not known yet."""
        if result.status is not ActionStatus.DONE:
            self._failure = ProposalBlocker(result.reason or ExperimentReason.SEARCH_FAILED, result.message)
        elif not self.is_informed:
            self._failure = None
            self.is_informed = True
            self._log.prepend(result.prior_observations)
            if result.message:
                self._actions.enqueue(EmitEvent("", str(ExperimentReason.WARM_STARTED), result.message), now)

    def record_proposals(self, request: Propose, result: ActionResult) -> None:
        """Takes in the searcher's answer. An answer to a request from before the log was rebuilt is ignored."""
        if result.status is not ActionStatus.DONE:
            message = result.message if result.reason else f"the searcher failed: {result.message}"
            self._failure = ProposalBlocker(result.reason or ExperimentReason.SEARCH_FAILED, message)
            return
        self._failure = None
        if request.observations is self._log.in_order:
            self._proposals.record_answers(request, result.proposals)

    def record_creation(self, action: CreateTrial, result: ActionResult) -> None:
        """Hears how the creation of a Trial went; one that is there all the same blocks nothing."""
        if result.status is not ActionStatus.DONE and action.spec.index in self._proposals.waiting:
            message = f"can't create a Trial: {result.message}"
            self._not_made[action.name] = ProposalBlocker(ExperimentReason.TRIAL_NOT_MADE, message)

    # What to ask for

    @property
    def _room(self) -> int:
        """How many more Trials there may be."""
        return self.spec.search.trial_limit - self._proposals.present

    @property
    def _left(self) -> int:
        """How many more configurations there may be."""
        return (self.spec.search.trial_limit - self._proposals.made) // self._repeats

    def _count_wanted(self, slots: int) -> int:
        """How many configurations are wanted now."""
        waiting = len(self._proposals.waiting)
        if self._proposals.exhausted or (waiting and self.spec.search.learns):
            return 0  # what is asked for next is to know of those that wait
        limit = self.spec.max_concurrent_trials
        ahead = -(-limit // (SLOTS_AHEAD * self._repeats)) if limit > self._repeats else 0
        needed = -(-max(slots - waiting, 0) // self._repeats)
        spare = ahead - max(waiting - slots, 0) // self._repeats
        wanted, batch = needed + max(spare, 0), self._settings.proposal_batch
        if wanted and not self.spec.search.learns:
            wanted = batch  # later it would answer the same
        return min(wanted, self._left, batch)

    @property
    def _is_to_hear_first(self) -> bool:
        """Whether a Trial is made only when the last one's end is on record: what ends the experiment may be in it.

        Of several at a time nobody expects that; and a searcher that learns is not asked before.
        """
        return self.spec.max_concurrent_trials == 1 and not self.spec.search.learns

    def _has_heard_all(self, now: float) -> bool:
        """Whether the ends of all trials are on record that had ended when this was first asked.

        Their ends are on their way to the API server, which takes a moment; a Trial that can't be written is not
        waited for.
        """
        if self._log.end == self._log.reserved:
            self._wait_for = 0
            return True
        if not self._wait_for:
            self._wait_for, self._wait_until = self._log.reserved, now + self._settings.observation_wait
        if self._log.end < self._wait_for and now < self._wait_until:
            self._actions.timers.set(EXPERIMENT, self._wait_until)
            return False
        self._wait_for = 0
        return True

    def _request(self, numbers: range, end: int, now: float, last: int | None = None) -> None:
        """Asks for these numbers, of a searcher that has been told of all observations below `end`.

        Args:
            numbers: The numbers.
            end: A sequence number.
            now: The present time.
            last: The last number that was asked for together with them: what came of those above them already is not
                shown to the searcher, who did not know of it when it was asked first.
        """
        told = self._log.count(end)
        later = (observation for observation in self._log.in_order[told:] if observation.final)
        were = (
            PendingTrial(observation.number, observation.configuration, observation.attributes) for observation in later
        )
        hidden = range(numbers[0], numbers[-1] + 1 if last is None else last + 1)
        request = Propose(
            first=numbers[0],
            count=len(numbers),
            origins=self._proposals.choose_origins(numbers),
            known=self._proposals.origins.by_number,
            skipped=self._proposals.list_first_entries(),
            observations=self._log.in_order,
            observed=told,
            observed_seq=end,
            pending=self._pending.list_newest(MAX_RUNNING - len(numbers), hidden, were),
        )
        self._actions.enqueue(request, now)

    def _learn(self, now: float) -> None:
        source = self.spec.search.warm_start
        assert source is not None  # else there is nothing to look up
        self._actions.enqueue(LoadWarmStart(source.experiment), now)

    def _is_created(self, index: int) -> bool:
        return ("create-trial", self._proposals.format_trial_name(index)) in self._actions

    # What it is told

    def _begin(self, trial: TrialMachine) -> None:
        """A configuration is under way until the searcher has been told of it."""
        number = find_number(trial.index, self._repeats)
        if number not in self._pending:
            self._pending.begin(PendingTrial(number, trial.configuration, trial.attributes))

    def _list_seqs(self, trial: TrialMachine) -> list[tuple[int, str, int]]:
        """The sequence numbers that a Trial's status holds: each with its rung, -1 for the trial's end."""
        seqs = [(observation.seq, trial.name, rung) for rung, observation in enumerate(trial.saved.rung_observations)]
        if trial.saved.observation_seq is not None:
            seqs.append((trial.saved.observation_seq, trial.name, END))
        return seqs

    def _find_observation(self, trial: TrialMachine, rung: int) -> Observation | None:
        """The observation of a rung or an end; None where other repeats of the configuration are under way."""
        if rung != END:
            recorded = trial.saved.rung_observations[rung]
            value = self.spec.objective.make_comparable(float(recorded.value))
            return Observation(
                number=find_number(trial.index, self._repeats),
                configuration=parse_configuration(self.spec.parameters, trial.spec.parameters),
                value=value,
                step=recorded.step,
                attributes=trial.attributes,
                final=False,
            )
        configuration = find_number(trial.index, self._repeats)
        repeats = self._ended[configuration]
        repeats[trial.index] = self._observe_end(trial)
        if len(repeats) < count_repeats(trial.index, self._repeats):
            return None
        del self._ended[configuration]
        return average([repeats[index] for index in sorted(repeats)])

    def _end_pending(self, observations: Iterable[Observation]) -> None:
        """Lets the searcher observe these: trials that have ended are no longer under way."""
        for observation in observations:
            if observation.final:
                self._pending.end(observation.number)

    def _observe_end(self, trial: TrialMachine) -> Observation:
        metrics = parse_metrics(trial.saved.last_result)
        values = [(criterion, read_number(metrics, criterion.metric)) for criterion in self.spec.objective.criteria]
        known = [criterion.make_comparable(value) for criterion, value in values if value is not None]
        has_all = len(known) == len(values) and trial.saved.state is not TrialState.ERROR
        return Observation(
            number=find_number(trial.index, self._repeats),
            configuration=trial.configuration,
            value=known[0] if has_all else None,
            step=trial.saved.iteration,
            others=tuple(known[1:]) if has_all else (),
            attributes=trial.attributes,
        )
