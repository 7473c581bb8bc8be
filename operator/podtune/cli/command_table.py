"""Which commands there are, where each is written, and what the help says of it.

To import all commands takes four times as long as to import one: a command is imported when it is named.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

import typer

_PACKAGE = "podtune.cli.commands"


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is imported when somebody names it.

    Attributes:
        place: Its module below `podtune.cli.commands` and its function: `show:describe`.
        help: What the list of commands says of it: the first line of its docstring.
    """

    place: str
    help: str

    def load(self) -> Callable[..., None]:
        """Imports the command."""
        module, function = self.place.split(":")
        loaded: Callable[..., None] = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), function)
        return loaded


@dataclass(frozen=True, slots=True)
class Group:
    """Commands under one word, such as `checkpoints download`.

    Attributes:
        help: What the list of commands says of all of them.
        commands: By name, in the order of the help text.
    """

    help: str
    commands: dict[str, Command]


PODTUNE = Group(
    "Kubernetes-native hyperparameter tuning.",
    {
        "list": Command("show:show_list", "List Experiments, how far they are and what they found."),
        "describe": Command("show:describe", "Show an Experiment: what was asked, how it goes, and all its Trials."),
        "watch": Command(
            "show:follow_experiment", "Follow an Experiment until it ends; the exit code is 0 if it is complete."
        ),
        "dashboard": Command(
            "show:show_dashboard",
            "Show the Experiments of the cluster, an exported one or a run, in the browser, on this machine, "
            "until Ctrl+C.",
        ),
        "logs": Command(
            "logs:logs", "Print the log of a Trial's current or last attempt, or what is stored of all of them."
        ),
        "trials": Command("reading.trials:print_trials", "List the Trials of an Experiment, filtered and sorted."),
        "compare": Command(
            "reading.trials:print_comparison",
            "Put Trials side by side: what came of each, and which parameters differ.",
        ),
        "curve": Command(
            "reading.curve:print_curves",
            "Draw the learning curves of Trials, in one picture; `results` has all that they have reported.",
        ),
        "top": Command("reading.top:print_use", "Show who uses GPUs, who waits for them since when and why, by node."),
        "results": Command(
            "results:results",
            "Print all results that a Trial has stored, or all Trials of an Experiment, in order of time.",
        ),
        "best": Command(
            "show:show_best", "Print the best configuration: its parameters, its value, and where its checkpoint is."
        ),
        "importance": Command(
            "show:show_importance", "Say which parameters matter for an objective, and which for training time."
        ),
        "create": Command(
            "experiments.create:create",
            "Make the Experiment of a file, after a check of all that is in it, and wait for its end if asked to.",
        ),
        "wait": Command(
            "experiments.wait:wait_for_goal",
            "Wait until an Experiment is complete, or has come to a value or a number of Trials.",
        ),
        "validate": Command(
            "checks.validate:validate",
            "Check manifests without a cluster: say all that the API server and the operator would refuse, and where.",
        ),
        "detect": Command(
            "checks.detect:detect",
            "Run a script here for a moment, and say how its results can be read without changing it.",
        ),
        "run": Command(
            "experiments.run:run_experiment",
            "Run an Experiment on this machine, without a cluster: each trial is a process.",
        ),
        "plan": Command(
            "plan:plan", "Say what an Experiment will take, without a cluster: trials at each rung, GPU-hours, cost."
        ),
        "simulate": Command(
            "simulate:simulate",
            "Run an Experiment in virtual time, without a cluster: hours of tuning in seconds.",
        ),
        "why": Command("show:why", "Say why a Trial is where it is: the decisions on it, with their numbers."),
        "pause": Command(
            "lifecycle:pause", "Have a Trial store a checkpoint and give its pod back, or all Trials of an Experiment."
        ),
        "resume": Command(
            "lifecycle:resume",
            "Have a paused Trial go on where it was, or an Experiment that is suspended or has ended.",
        ),
        "stop": Command("lifecycle:stop", "End a Trial, or an Experiment and all its Trials, for good."),
        "checkpoint": Command(
            "checkpoint_request:request_checkpoint", "Have a running Trial store a checkpoint now, and train on."
        ),
        "retry": Command(
            "retry:retry",
            "Have a Trial go on from its last checkpoint in new pods, which have the present trialTemplate.",
        ),
        "try": Command(
            "trial_addition:try_configuration", "Run a configuration of your own as a Trial of an Experiment."
        ),
        "clone": Command(
            "trial_addition:clone_trial",
            "Run a Trial's configuration, with changes, as another Trial of its Experiment.",
        ),
        "export": Command(
            "transfer:export_experiment",
            "Write a whole Experiment and its Trials to a file, to import it elsewhere, or its results for others.",
        ),
        "import": Command(
            "transfer:import_experiment",
            "Make the Experiment of a file that `export` has written, to go on where it was.",
        ),
        "restore": Command(
            "restore:restore_experiment",
            "Make an Experiment from what its store holds, to go on from there where its cluster is lost.",
        ),
        "release": Command(
            "release:release_experiment",
            "Let an Experiment go that waits for its checkpoints' deletion; they stay in the bucket.",
        ),
        "enable": Command(
            "opt_in.command:enable",
            "Have the operator serve a namespace, where each has to opt in (namespaceOptIn): make its RoleBinding.",
        ),
        "disable": Command(
            "opt_in.command:disable",
            "Have the operator leave a namespace alone: delete its RoleBinding, and say what runs there still.",
        ),
        "doctor": Command(
            "doctor.command:doctor",
            "Say what is wrong with the installation, and the remedy; the exit code is 1 if anything is.",
        ),
        "conformance": Command(
            "conformance.command:conformance",
            "Bring failures about on your cluster, and say whether Podtune survives each; the exit code is 1 if not.",
        ),
        "completion": Command(
            "version:completion",
            "Print the script that has a shell complete commands, options, and names of Experiments and Trials.",
        ),
        "version": Command("version:version", "Print the version."),
    },
)
GROUPS = {
    "checkpoints": Group(
        "Get at checkpoints that trials have stored.",
        {
            "list": Command(
                "stored.checkpoint_list:list_checkpoints",
                "List the checkpoints of a Trial, or of all Trials of an Experiment.",
            ),
            "verify": Command(
                "stored.verification:verify",
                "Check every hash of stored checkpoints, without keeping them; the exit code is 1 if one is damaged.",
            ),
            "download": Command(
                "checkpoints:download", "Download a checkpoint, and check the hash of all that is in it."
            ),
        },
    ),
}


def make_program(words: Collection[str]) -> typer.Typer:
    """Makes the program for a command line: commands that it names are imported, of others it has the help alone."""
    app = typer.Typer(
        help=PODTUNE.help,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    _add_commands(app, PODTUNE, words)
    for name, group in GROUPS.items():
        below = typer.Typer(help=group.help, no_args_is_help=True)
        _add_commands(below, group, words if name in words else ())
        app.add_typer(below, name=name)
    return app


def _add_commands(app: typer.Typer, group: Group, words: Collection[str]) -> None:
    for name, command in group.commands.items():
        if name in words:
            app.command(name)(command.load())
        else:
            app.command(name, help=command.help)(_do_nothing)


def _do_nothing() -> None:
    """Stands for a command that the command line does not name."""
