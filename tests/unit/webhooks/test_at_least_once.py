"""Whatever happens, and whenever operators are killed: nothing is lost, and nothing is heard twice under another id."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from podtune.api.names import TrialState
from podtune.webhooks.events import CloudEvent, Subject
from podtune.webhooks.kept_events import encode_kept_events
from podtune.webhooks.outbox import ReceiverOutbox
from tests.unit.webhooks.subjects import EXPERIMENT, WrittenTrial, make_outbox

STATES = (TrialState.PENDING, TrialState.RUNNING, TrialState.PAUSED, TrialState.TERMINATED)
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 1), st.sampled_from(STATES)),
        st.tuples(st.just("report"), st.integers(0, 1), st.integers(1, 90)),
        st.tuples(st.just("store"), st.integers(0, 1), st.integers(1, 9)),
        st.tuples(st.just("reopen"), st.integers(0, 1), st.none()),
        st.tuples(st.sampled_from(("save", "crash", "deliver", "deliver one", "answer lost")), st.none(), st.none()),
    ),
    max_size=40,
)


class World:
    """Two Trials, an operator, and a receiver that notes what it hears."""

    def __init__(self) -> None:
        self.trials = [WrittenTrial(0, "t-0"), WrittenTrial(1, "t-1")]
        self.kept: dict[str, str] = {}
        self.held = b""
        self.heard: list[CloudEvent] = []
        self.steps = [0, 0]
        self.attempts = 0
        self.recorded: dict[str, set[str]] = {"t-0": set(), "t-1": set()}
        self.outbox: ReceiverOutbox
        self.lead()

    def lead(self) -> None:
        """Another operator takes over: it knows the objects, and what was kept."""
        self.outbox = make_outbox(self.kept, self.held)
        for trial in self.trials:
            self.outbox.observe(trial.subject)
        self.outbox.end_loading()

    def write(self, trial: WrittenTrial) -> None:
        self.outbox.observe(trial.subject)

    def save(self, *, at_end: bool) -> None:
        """As a `Delivery` does."""
        self.kept = self.outbox.positions.encode()
        if at_end or self.outbox.is_held_told:
            self.held = encode_kept_events(self.outbox.list_held())

    def deliver(self, limit: int, *, answered: bool = True) -> None:
        batch = self.outbox.take(limit)
        self.heard += batch.events
        if answered:
            self.outbox.confirm(batch)

    def act(self, name: str, which: int | None, what: object) -> None:
        if which is not None:
            self.change(name, self.trials[which], which, what)
            self.write(self.trials[which])
        elif name == "save":
            self.save(at_end=False)
        elif name == "crash":
            self.lead()
        else:
            self.deliver(1 if name == "deliver one" else 1000, answered=name != "answer lost")

    def change(self, name: str, trial: WrittenTrial, which: int, what: object) -> None:
        if name == "turn":
            self.attempts += 1
            if len(trial.status.transitions) < 11:  # of more, those before a crash may be missed
                trial.turn(TrialState(str(what)), self.attempts)
        elif name == "report":
            for _ in range(int(str(what))):
                self.steps[which] += 1
                trial.report(self.steps[which], 1 / self.steps[which])
        elif name == "store":
            self.steps[which] += 1
            trial.store(self.steps[which])
        elif trial.status.state is TrialState.TERMINATED:
            generation = trial.status.run_generation + 1
            trial.status = trial.status.model_copy(update={"run_generation": generation})
            trial.turn(TrialState.PENDING, self.attempts)


@given(HAPPENINGS)
def test_nothing_is_lost_and_nothing_has_two_ids(happenings: list[tuple[str, int | None, object]]) -> None:
    world = World()
    for happening in happenings:
        world.act(*happening)
    while len(world.outbox):
        world.deliver(7)
    by_id: dict[str, CloudEvent] = {}
    facts: dict[tuple[object, ...], str] = {}
    for event in world.heard:
        known = by_id.setdefault(event["id"], event)
        assert known["data"]["trial"] == event["data"]["trial"]
        assert facts.setdefault(name_fact(event), event["id"]) == event["id"]
    for trial in world.trials:
        fresh = make_outbox()
        fresh.observe(trial.subject)
        everything = {event["id"] for event in fresh.take(1000).events}
        assert everything <= by_id.keys(), "what the object tells was heard"


WITHOUT_CRASHES = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 1), st.sampled_from(STATES)),
        st.tuples(st.just("report"), st.integers(0, 1), st.integers(1, 90)),
        st.tuples(st.just("store"), st.integers(0, 1), st.integers(1, 9)),
        st.tuples(
            st.sampled_from(("save", "deliver", "deliver one", "answer lost", "answer late")), st.none(), st.none()
        ),
    ),
    max_size=80,
)


class Outage(World):
    """The operator stays: whatever it has seen is heard, however often objects change before they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def write(self, trial: WrittenTrial) -> None:
        self.seen |= list_ids(trial)
        super().write(trial)

    def act(self, name: str, which: int | None, what: object) -> None:
        if name == "answer late":  # objects change while a request is under way
            batch = self.outbox.take(3)
            self.heard += batch.events
            for other in (0, 1):
                super().act("turn", other, TrialState.PAUSED)
                super().act("store", other, 1)
            self.outbox.confirm(batch)
        else:
            super().act(name, which, what)

    def change(self, name: str, trial: WrittenTrial, which: int, what: object) -> None:
        if name == "turn":
            self.attempts += 1
            trial.turn(TrialState(str(what)), self.attempts)
        else:
            super().change(name, trial, which, what)


def list_ids(trial: WrittenTrial) -> set[str]:
    """The ids of all that a Trial tells of."""
    outbox = make_outbox()
    outbox.observe(trial.subject)
    return {event["id"] for event in outbox.take(1000).events}


@given(WITHOUT_CRASHES)
def test_what_falls_out_of_statuses_while_a_receiver_is_away_is_heard(
    happenings: list[tuple[str, int | None, object]],
) -> None:
    world = Outage()
    for happening in happenings:
        world.act(*happening)
    while len(world.outbox):
        world.deliver(7)
    assert world.seen <= {event["id"] for event in world.heard}
    assert world.outbox._held_bytes == 0, "nothing is held of what was told"
    first_heard = list({event["id"]: event for event in world.heard}.values())
    for name in ("t-0", "t-1"):
        numbers = [event["data"]["number"] for event in first_heard if event["id"].startswith(f"{name}-transition-")]
        assert numbers == list(range(1, len(numbers) + 1)), "changes of state come in order, without a gap"


WITH_RESTARTS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.integers(0, 1), st.sampled_from(STATES)),
        st.tuples(st.just("report"), st.integers(0, 1), st.integers(1, 90)),
        st.tuples(st.just("store"), st.integers(0, 1), st.integers(1, 9)),
        st.tuples(st.just("delete"), st.integers(0, 1), st.none()),
        st.tuples(
            st.sampled_from(("save", "restart", "deliver", "deliver one", "answer lost", "answer late")),
            st.none(),
            st.none(),
        ),
    ),
    max_size=80,
)


class Upgrades(Outage):
    """Operators end in order, one after the other: each leaves to the next what it holds."""

    def act(self, name: str, which: int | None, what: object) -> None:
        if name == "restart":
            self.save(at_end=True)
            self.lead()
        elif name == "delete" and which is not None:
            self.outbox.forget(self.trials[which].subject)
            uid = f"t-{which}-{self.attempts}-{len(self.heard)}-{self.steps[which]}"
            self.trials[which] = WrittenTrial(which, uid)
            self.write(self.trials[which])
        else:
            super().act(name, which, what)


@given(WITH_RESTARTS)
def test_what_is_held_is_heard_though_operators_end_meanwhile(
    happenings: list[tuple[str, int | None, object]],
) -> None:
    world = Upgrades()
    for happening in happenings:
        world.act(*happening)
    world.act("restart", None, None)
    while len(world.outbox):
        world.deliver(7)
    assert world.seen <= {event["id"] for event in world.heard}
    assert world.outbox._held_bytes == 0, "nothing is held of what was told"
    world.save(at_end=False)
    assert not world.held, "nothing is left to the next operator"


def name_fact(event: CloudEvent) -> tuple[object, ...]:
    """What an event tells of, in words of its own: no id is looked at."""
    data = event["data"]
    return event["type"], event["subject"], data.get("number"), data.get("uri"), data.get("state")


def test_a_crash_before_anything_was_kept_tells_all_again_and_nothing_else() -> None:
    world = World()
    world.trials[0].turn(TrialState.RUNNING).report(1, 0.5)
    world.write(world.trials[0])
    world.deliver(1000)
    first = list(world.heard)
    world.lead()
    world.deliver(1000)
    assert world.heard == [*first, *first]


def test_a_history_of_ten_thousand_trials_is_kept_in_a_few_bytes_and_not_told_again() -> None:
    outbox = make_outbox()
    ended = WrittenTrial().turn(TrialState.RUNNING).report(1, 0.5).turn(TrialState.TERMINATED).read()
    subjects = [
        Subject(EXPERIMENT, replace(ended, uid=f"t-{i}", spec=ended.spec.model_copy(update={"index": i})))
        for i in range(10_000)
    ]
    for subject in subjects[::-1]:
        outbox.observe(subject)
    while len(outbox):
        outbox.confirm(outbox.take(1000))
    kept = outbox.positions.encode()
    assert kept == {EXPERIMENT.uid: '{"own":0,"ended":{"0":"0-9999"},"trials":{}}'}
    following = make_outbox(kept)
    assert not any(following.observe(subject) for subject in subjects)
