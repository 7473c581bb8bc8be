"""Histories of populations, and what Ray Tune's PopulationBasedTraining decides on them.

A history is a list of events in the order in which a controller of Ray's makes them:

    ["choose", trials]                          there is a place, and these wait for one
    ["result", trial, time, value, waiting]     it reported, while so many others waited or were paused
    ["complete", trial, time, value]            it came to its own end, with this last result
    ["remove", trial]                           it failed for good

All trials are there from the beginning, with the configurations that the history gives. The answer to a result is the
decision, the trial whose checkpoint is cloned, of which time that is, and with which configuration, and whether a
checkpoint was asked for; to the choice of a trial, which one it is, and what it goes on from if it was to clone another
one at a barrier. In Ray a checkpoint is made the moment it is asked for.

The scheduler runs without a cluster: what it asks of trials and of the controller is stood in for here. Its draws come
from Python's `random` and from NumPy's generator. Both are the same Mersenne Twister; before each perturbation of a
trial their state is set to that of Podtune's generator, and they take their numbers from one stream. NumPy's logarithm
and exponential function are the C library's, since those of NumPy depend on the processor in their last bit.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

from podtune.api.tuning.search_space import ChoiceDomain, Domain, FloatDomain, IntDomain, Parameter, Scalar
from podtune.tuning.schedulers.pbt import build_perturbation_generator
from podtune.tuning.schedulers.population.explore import draw_value

HISTORIES = 250
"""So many of each kind."""
EVENTS = 180
Event = list[Any]

DOMAINS: list[dict[str, Any]] = [
    {"float": {"min": 0.0, "max": 1.0}},
    {"float": {"min": -3.0, "max": 20.0}},
    {"float": {"min": 0.0001, "max": 0.1, "scale": "log"}},
    {"float": {"min": 0.5, "max": 2.5, "step": 0.25}},
    {"float": {"min": 0.1, "max": 0.9, "step": 0.1}},
    {"int": {"min": 1, "max": 10}},
    {"int": {"min": 16, "max": 512, "scale": "log"}},
    {"int": {"min": 8, "max": 256, "step": 8}},
    {"int": {"min": -10, "max": 10_000_000_000}},
    {"choice": {"values": ["adam", "sgd", "rmsprop"]}},
    {"choice": {"values": [16, 32, 64, 128]}},
    {"choice": {"values": [0.9, 0.99, 0.999]}},
    {"choice": {"values": [False, True]}},
]


def replay() -> list[dict[str, Any]]:
    """Makes the histories and adds Ray's answers."""
    logging.getLogger("ray.tune.schedulers.pbt").setLevel(logging.WARNING)
    share_one_stream()
    kinds = [(seed, synchronous) for synchronous in (False, True) for seed in range(HISTORIES)]
    return [_with_rays_answers(_settings(seed, synchronous=synchronous)) for seed, synchronous in kinds]


def _settings(seed: int, *, synchronous: bool) -> dict[str, Any]:
    draw = random.Random(f"settings {seed} {synchronous}")
    parameters = [
        {"name": f"p{place}", **domain} for place, domain in enumerate(draw.sample(DOMAINS, draw.randrange(1, 6)))
    ]
    names = [parameter["name"] for parameter in parameters]
    mutations = [_mutation(parameters[names.index(name)], draw) for name in draw.sample(names, len(names))]
    trials = draw.choice([2, 3, 4, 5, 8, 8, 12])
    return {
        "seed": seed,
        "synchronous": synchronous,
        "mode": draw.choice(["max", "min"]),
        "interval": draw.choice([1, 2, 4, 5, 10]),
        "burn_in": draw.choice([0, 0, 0, 3, 15]),
        "quantile": draw.choice([0.125, 0.25, 0.25, 0.3, 0.5]),
        "resample_probability": draw.choice([0.0, 0.25, 0.25, 0.5, 1.0]),
        "factors": draw.choice([[0.8, 1.2], [0.8, 1.2], [0.5, 2.0]]),
        "parameters": parameters,
        "mutations": draw.choice([[], mutations, mutations[:-1]]),
        "configurations": [_configuration(parameters, draw) for _ in range(trials)],
    }


def _mutation(parameter: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A parameter with bounds of its own, now and then, of which its configurations know nothing."""
    other: dict[str, Any] = {}
    if draw.random() < 0.3 and "float" in parameter:
        other = draw.choice([{"float": {"min": 0.25, "max": 0.75}}, {"choice": {"values": [0.25, 0.5]}}])
    elif draw.random() < 0.3 and "int" in parameter:
        other = draw.choice([{"int": {"min": 2, "max": 200}}, {"choice": {"values": [1, 2, 100]}}])
    return {"name": parameter["name"], **other}


def _configuration(parameters: list[dict[str, Any]], draw: random.Random) -> dict[str, Scalar]:
    models = [Parameter.model_validate(parameter) for parameter in parameters]
    return {parameter.name: draw_value(parameter.domain, draw) for parameter in models}


def rays_mutations(history: dict[str, Any]) -> dict[str, Any]:
    """What Ray is told to change, in its own words."""
    own = {parameter["name"]: parameter for parameter in history["parameters"]}
    chosen = [own[mutation["name"]] if len(mutation) == 1 else mutation for mutation in history["mutations"]]
    models = [Parameter.model_validate(parameter) for parameter in chosen or history["parameters"]]
    return {parameter.name: _in_rays_words(parameter.domain) for parameter in models}


def _in_rays_words(domain: Domain) -> Any:
    from ray import tune

    match domain:
        case ChoiceDomain(values=values):
            return list(values)
        case IntDomain(min=low, max=high, scale="log"):
            return tune.lograndint(low, high + 1)
        case IntDomain(min=low, max=high, step=1):
            return tune.randint(low, high + 1)
        case IntDomain(min=low, max=high, step=step):
            return tune.qrandint(low, high, step)
        case FloatDomain(min=low, max=high, scale="log"):
            return tune.loguniform(low, high)
        case FloatDomain(min=low, max=high, step=None):
            return tune.uniform(low, high)
        case FloatDomain(min=low, max=high, step=step):
            return tune.quniform(low, high, step)
        case _:
            raise AssertionError(domain)


def share_one_stream() -> None:
    """Has Ray's samplers draw from Python's generator with NumPy's methods, and compute with Python's functions."""
    import numpy as np
    from ray.tune.search import sample

    class Shared:
        def __getattr__(self, name: str) -> Any:
            def method(*args: Any, **kwargs: Any) -> Any:
                version, state, gauss = random.getstate()
                np.random.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
                result = getattr(np.random, name)(*args, **kwargs)
                _, words, position, *_ = np.random.get_state(legacy=True)
                random.setstate((version, (*map(int, words), int(position)), gauss))
                return result

            return method

    class Numpy:
        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

        def log(self, number: float) -> float:
            return math.log(number)

        def exp(self, numbers: Any) -> Any:
            return np.array([math.exp(number) for number in numbers])

    sample.np = Numpy()
    sample._BackwardsCompatibleNumpyRng.rng = property(lambda self: Shared())


class _Trial:
    """A trial as Ray sees it, and how it reports."""

    def __init__(self, index: int, configuration: dict[str, Scalar], draw: random.Random, interval: int) -> None:
        self.trial_id = index
        self.status = "PENDING"
        self.config = dict(configuration)
        self.experiment_tag = str(index)
        self.evaluated_params: dict[str, Any] = {}
        self.last_result: dict[str, Any] = {}
        self.temporary_state = SimpleNamespace(saving_to=None)
        manager = SimpleNamespace(
            checkpoint_config=SimpleNamespace(num_to_keep=None),
            _latest_checkpoint_result=SimpleNamespace(checkpoint=None),
        )
        self.run_metadata = SimpleNamespace(checkpoint_manager=manager)
        self.time: float = 0
        self.was_cloned = False
        self.can_save = draw.random() < 0.9
        self.asked_to_save = False
        self._draw = draw
        self._quality = draw.random()
        self._stride = draw.choice([1, 1, 1, 1, 2, 0.5, interval, 3 * interval])

    @property
    def checkpoint(self) -> Any:
        return self.run_metadata.checkpoint_manager._latest_checkpoint_result.checkpoint

    def is_finished(self) -> bool:
        return self.status in ("TERMINATED", "ERROR")

    def set_config(self, config: dict[str, Scalar]) -> None:
        self.config = config
        self.was_cloned = True

    def set_experiment_tag(self, tag: str) -> None:
        self.experiment_tag = tag

    def save(self) -> Any:
        """Its latest checkpoint is its own from now on."""
        checkpoint = SimpleNamespace(origin=self.trial_id, time=self.time) if self.can_save else None
        self.run_metadata.checkpoint_manager._latest_checkpoint_result = SimpleNamespace(checkpoint=checkpoint)
        return checkpoint

    def report(self, digits: int, *, odd: bool) -> float:
        self.time += self._stride
        if odd and self._draw.random() < 0.1:
            return self._draw.choice([math.nan, math.inf, -math.inf, 0])
        return round(self._quality + self._draw.gauss(0, 0.3), digits)


class _Controller:
    """What the scheduler asks of Ray's controller."""

    search_alg = None

    def __init__(self, trials: list[_Trial]) -> None:
        self.trials = trials

    def get_trials(self) -> list[_Trial]:
        return self.trials

    def get_live_trials(self) -> list[_Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def in_status(self, *statuses: str) -> list[_Trial]:
        return [trial for trial in self.trials if trial.status in statuses]

    def pause_trial(self, trial: _Trial, should_checkpoint: bool) -> None:
        trial.status = "PAUSED"

    def _schedule_trial_save(self, trial: _Trial, result: Any) -> Any:
        trial.asked_to_save = True
        return trial.save()


def _with_rays_answers(settings: dict[str, Any]) -> dict[str, Any]:
    from ray.tune.schedulers import PopulationBasedTraining

    looks: Counter[int] = Counter()

    class Seeded(PopulationBasedTraining):  # type: ignore[misc]
        """Draws from Podtune's generators, each time that it looks at a trial."""

        def _checkpoint_or_exploit(self, trial: _Trial, *args: Any) -> None:
            looks[trial.trial_id] += 1
            ours = build_perturbation_generator(settings["seed"], trial.trial_id, looks[trial.trial_id])
            random.setstate(ours.getstate())
            super()._checkpoint_or_exploit(trial, *args)

    down, up = settings["factors"]
    scheduler = Seeded(
        time_attr="t",
        metric="m",
        mode=settings["mode"],
        perturbation_interval=settings["interval"],
        burn_in_period=settings["burn_in"],
        hyperparam_mutations=rays_mutations(settings),
        quantile_fraction=settings["quantile"],
        resample_probability=settings["resample_probability"],
        perturbation_factors=(up, down),
        log_config=False,
        synch=settings["synchronous"],
    )
    run = _Run(settings, scheduler)
    run.to_the_end()
    return {**settings, "cannot_save": run.cannot_save, "events": run.events, "answers": run.answers}


class _Run:
    def __init__(self, settings: dict[str, Any], scheduler: Any) -> None:
        self._draw = random.Random(f"history {settings['seed']} {settings['synchronous']}")
        self._scheduler = scheduler
        self._synchronous = settings["synchronous"]
        self._digits = self._draw.choice([1, 2, 16])
        self._odd = self._draw.random() < 0.3
        self._ends = self._draw.choice([0, 0.005, 0.02])
        trials = [
            _Trial(index, configuration, self._draw, settings["interval"])
            for index, configuration in enumerate(settings["configurations"])
        ]
        if self._synchronous:
            for trial in trials:
                trial.can_save = True
        self._places = self._draw.choice([len(trials), len(trials), self._draw.randrange(1, len(trials) + 1)])
        self._controller = _Controller(trials)
        self.cannot_save = [trial.trial_id for trial in trials if not trial.can_save]
        self.events: list[Event] = []
        self.answers: list[Any] = []
        for trial in trials:
            scheduler.on_trial_add(self._controller, trial)

    def to_the_end(self) -> None:
        refused = False
        while len(self.events) < EVENTS:
            running = self._controller.in_status("RUNNING")
            waiting = self._controller.in_status("PENDING", "PAUSED")
            if waiting and len(running) < self._places and not refused:
                refused = not self._start(waiting)
            elif running:
                refused = False
                self._go_on(self._draw.choice(running))
            else:
                return  # all have ended; or Ray has come to a standstill

    def _start(self, waiting: list[_Trial]) -> bool:
        chosen = self._scheduler.choose_trial_to_run(self._controller)
        if chosen is None and not self._controller.in_status("RUNNING"):
            return False
        self.events.append(["choose", [trial.trial_id for trial in waiting]])
        if chosen is None:
            self.answers.append(None)
            return False
        cloned = self._taken_over(chosen) if self._synchronous and chosen.was_cloned else {}
        self.answers.append({"trial": chosen.trial_id, **cloned})
        chosen.was_cloned = False
        chosen.status = "RUNNING"
        return True

    def _go_on(self, trial: _Trial) -> None:
        value = trial.report(self._digits, odd=self._odd)
        end = self._draw.random()
        if end < self._ends:
            trial.status = "TERMINATED"
            result = {"t": trial.time, "m": value}
            self._scheduler.on_trial_complete(self._controller, trial, result)
            self._happened(["complete", trial.trial_id, trial.time, value], None)
        elif end < 1.3 * self._ends:
            trial.status = "ERROR"
            self._scheduler.on_trial_error(self._controller, trial)
            self._happened(["remove", trial.trial_id], None)
        else:
            self._result(trial, value)

    def _result(self, trial: _Trial, value: float) -> None:
        waiting = len(self._controller.in_status("PENDING", "PAUSED"))
        trial.asked_to_save = False
        decision = self._scheduler.on_trial_result(self._controller, trial, {"t": trial.time, "m": value})
        event = ["result", trial.trial_id, trial.time, value, waiting]
        if self._synchronous:
            self._happened(event, "PAUSE" if decision == "NOOP" else decision)
        elif decision == "NOOP":
            self._happened(event, {"action": "EXPLOIT", **self._taken_over(trial)})
            trial.was_cloned = False
        else:
            self._happened(event, {"action": decision, "save": trial.asked_to_save})
        if decision == "PAUSE":
            trial.status = "PAUSED"
            trial.save()

    def _taken_over(self, trial: _Trial) -> dict[str, Any]:
        """What a trial goes on from: the weights of the trial that its checkpoint is of, from the donor's time on."""
        trial.time = self._scheduler._trial_state[trial].last_train_time
        cloned = trial.checkpoint
        return {"donor": cloned.origin, "checkpoint": cloned.time, "configuration": trial.config}

    def _happened(self, event: Event, answer: Any) -> None:
        self.events.append(event)
        self.answers.append(answer)
