"""Whoever pastes a message, or a reason, into the site's search finds what it means: each one has its entry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from podtune.api.names import ExperimentReason, TrialReason
from podtune.cli.commands.doctor.command import DOCTOR_CHECKS
from tests.raised_messages import (
    OPEN,
    RaisedMessage,
    find_subclasses,
    list_logged_events,
    list_messages,
    list_reason_words,
)

ROOT = Path(__file__).resolve().parents[4]
PAGES = {
    page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "troubleshooting").glob("*.md"))
}
SPAN = re.compile(r"(?P<ticks>`+) ?(?P<text>.+?) ?(?P=ticks)(?!`)", re.DOTALL)
LONGEST_PAGE = 1500
FEWEST_LETTERS = 6
"""A pattern with fewer letters of its own would match anything."""
IN_CONDITIONS = ("runner/", "agent/checkpoints/", "agent/sidecar/", "cluster/decoders.py")
NO_REASONS = {"ExperimentMachine", "ActionPlan", "DisruptionTarget", "TerminationTarget", "PodScheduled", "ConfigMap"}
"""Words in CamelCase that nobody sees as a reason."""
BY_FIELD = {"FieldError", "InvalidConfiguration", "UnknownName"} | {"ExpressionError"}
"""Errors whose message begins with the path of a field, as the page on manifests says of all of them."""
BY_PROTOCOL = {
    "ProtocolError",
    "InvalidManifest",
    "ScrapeSettingsError",
    "SyncSettingsError",
    "TrackerSettingsError",
}
"""Errors about messages of other versions, which never stand alone: what they are about is said before them."""
INTERNAL = {"Busy", "AssertionError", "AttributeError", "KeyError", "NotImplementedError"}
INTERNAL_FILES = (
    "api/crd/",  # makes the definitions, for developers
    "testing/",  # for authors of extensions, who read it in pytest
    "agent/state/outbox.py",  # what follows can happen by an error of the program alone
    "agent/state/restore_info.py",
    "protocol/checkpoint_queue.py",
    "runner/attempts/retries.py",
    "storage/directory.py",
    "storage/segments/segment.py",
    "storage/s3/client.py",
    "storage/volume/unfinished.py",
    "tuning/domains/",
    "tuning/searchers/spaces/unit_cube.py",
    "tuning/schedulers/curves.py",
    "tuning/schedulers/factory.py",
    "tuning/schedulers/halving/rungs.py",
    "tuning/schedulers/population/",
)


def spans(text: str) -> Iterator[str]:
    """What stands in backticks, in one line."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n(?:\n|(?=- ))", prose):
        for match in SPAN.finditer(paragraph):
            yield " ".join(match["text"].split())


def headings() -> set[str]:
    """The words in backticks of all headings: they are found, and can be linked to."""
    lines = [line for text in PAGES.values() for line in text.splitlines() if line.startswith("#")]
    return {span for line in lines for span in spans(line)}


@cache
def patterns() -> re.Pattern[str]:
    """Matches each message that stands on one of the pages."""
    found = {span for text in PAGES.values() for span in spans(text)}
    usable = [span for span in found if len(re.findall(r"[A-Za-z]", span)) >= FEWEST_LETTERS or span == "--…"]
    return re.compile("|".join(".*".join(map(re.escape, span.split(OPEN))) for span in usable), re.DOTALL)


def is_seen(message: RaisedMessage) -> bool:
    """Whether people read a message as it is."""
    is_open = len(re.findall(r"[A-Za-z]", message.text)) < FEWEST_LETTERS  # the words come from elsewhere
    by_rule = message.kind in BY_FIELD | BY_PROTOCOL | INTERNAL
    return not (is_open or by_rule or message.file.startswith(INTERNAL_FILES))


def test_every_error_has_its_entry() -> None:
    lacking = {
        str(message) for message in list_messages() if is_seen(message) and not patterns().fullmatch(message.text)
    }
    assert sorted(lacking) == [], "add each to a page of docs/troubleshooting, in backticks, with … for what differs"


def test_every_rule_of_the_definitions_has_its_entry() -> None:
    lacking = sorted(text for text in rules() if not patterns().fullmatch(text))
    assert lacking == [], "add each to docs/troubleshooting/manifests.md"


def rules() -> set[str]:
    """What the API server says when it refuses an Experiment or a Trial by our rules."""

    def walk(node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            yield from (rule["message"] for rule in node.get("x-kubernetes-validations") or () if "message" in rule)
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from walk(child)

    return set(walk([yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "crds").glob("*.yaml")]))


def test_every_reason_has_a_heading() -> None:
    reasons = {*map(str, ExperimentReason), *map(str, TrialReason), *(find_subclasses("StoreError") - {"StoreError"})}
    reasons |= {word for _, word in list_reason_words(*IN_CONDITIONS)} - NO_REASONS
    assert sorted(reasons - headings()) == [], "give each a heading on a page of docs/troubleshooting"


def test_every_logged_problem_has_a_heading() -> None:
    events = {
        event
        for _, event in list_logged_events(
            "agent/", "controllers/", "app/", "cluster/", "results/", "webhooks/", "tracing/", "local/"
        )
    }
    known = re.compile("|".join(".*".join(map(re.escape, span.split(OPEN))) for span in headings()))
    assert sorted(event for event in events if not known.fullmatch(event.replace(OPEN, "results"))) == []


def test_every_check_of_doctor_is_explained() -> None:
    page = (ROOT / "docs" / "how-to" / "check-an-installation.md").read_text(encoding="utf-8")
    assert [name for name in DOCTOR_CHECKS if f"| {name} |" not in page] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_enough_to_be_read(name: str) -> None:
    assert len(PAGES[name].split()) <= LONGEST_PAGE


def test_no_reason_is_explained_that_is_not_there_any_more() -> None:
    made = {*map(str, ExperimentReason), *map(str, TrialReason)}
    pages = ("experiment-conditions.md", "trial-reasons.md")
    told = {
        span for name in pages for line in PAGES[name].splitlines() if line.startswith("###") for span in spans(line)
    }
    words = {word for _, word in list_reason_words("runner/", "agent/")}
    assert told - made - words == set(), "remove its entry"
