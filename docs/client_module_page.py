"""The page about `podtune.client`, made of the docstrings of what it exports."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from docs.trial_module_page import describe_function, describe_parts
from podtune import client

INTRODUCTION = """# podtune.client

What notebooks and programs import to create, follow and steer experiments: see [Use Podtune from
Python](../how-to/use-python.md). `AsyncClient`, `AsyncExperiment`, `AsyncTrial` and `AsyncCheckpoint` have the calls of
`Client`, `Experiment`, `Trial` and `TrialCheckpoint`, to be awaited.
"""
CLASSES: tuple[type, ...] = (
    client.Client,
    client.Experiment,
    client.Trial,
    client.TrialCheckpoint,
    client.ExperimentSnapshot,
    client.ExperimentWatch,
    client.Conclusion,
    client.Best,
    client.FrontTrial,
    client.CurvePoint,
    client.StoreOptions,
)


def client_module_page() -> str:
    """The page's text."""
    sections = [part for each in CLASSES for part in _describe_class(each)]
    return "\n".join([INTRODUCTION, *sections, *_list_errors()])


def _describe_class(kind: type) -> Iterator[str]:
    """A heading, the docstring, the constructor of what users make, the properties, and each method."""
    yield f"## {kind.__name__}\n"
    yield from describe_parts(kind.__doc__ or "")
    if kind is client.Client:
        yield from describe_function(kind.__init__, "###", "Client")
    members = {name: inspect.getattr_static(kind, name) for name in vars(kind) if not name.startswith("_")}
    properties = {name: member for name, member in members.items() if isinstance(member, property | cached_property)}
    if properties:
        rows = (f"| `{name}` | {_summarize(member)} |" for name, member in properties.items())
        yield "\n".join(["| property | meaning |", "|---|---|", *rows]) + "\n"
    for name, member in members.items():
        if isinstance(member, classmethod) or inspect.isfunction(member):
            yield from describe_function(getattr(kind, name), "###", name)


def _list_errors() -> Iterator[str]:
    """What each error means."""
    kinds = (getattr(client, name) for name in client.__all__)
    errors = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, client.PodtuneError)]
    yield "## Errors\n"
    yield (
        "\n".join(["| error | meaning |", "|---|---|", *(f"| `{e.__name__}` | {_summarize(e)} |" for e in errors)])
        + "\n"
    )


def _summarize(documented: Any) -> str:
    """The first paragraph of a docstring as one line."""
    return " ".join((inspect.getdoc(documented) or "").partition("\n\n")[0].split())
