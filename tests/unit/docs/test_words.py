"""Code and pages use the glossary's terms, and each public name of the product stands for one thing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs.generate_glossary import PAGE, TABLE, read_glossary
from docs.measure_codebase import SourceFile, find_double_names, read_files
from docs.retired_words import RetiredWords, list_texts

ROOT = Path(__file__).resolve().parents[3]
# What tells of the past: what a word was called before stands there.
SKIPPED = (ROOT / "CHANGELOG.md", TABLE, PAGE, Path(__file__))


def retired(*forms: str) -> RetiredWords:
    """A glossary of one term."""
    return RetiredWords([{"term": "write barrier", "retired": list(forms)}])


def test_nobody_writes_a_retired_word() -> None:
    words = RetiredWords(read_glossary())
    assert [problem for path, text in list_texts(ROOT, SKIPPED) for problem in words.find(path, text)] == []


def test_no_public_name_of_the_product_is_defined_twice() -> None:
    assert find_double_names(read_files(ROOT)) == {}, "give one of each pair a name of its own"


@pytest.mark.parametrize(
    "text",
    [
        "The ticket is durable.",
        "Two tickets.",
        "def write_ticket() -> None:",
        "class TicketOffice:",
        "reason: TicketMissing",
        "lastTicket: 3",
    ],
)
def test_a_retired_word_is_refused_in_prose_and_in_identifiers(text: str) -> None:
    assert list(retired("ticket").find("a.py", f"\n{text}\n")) == ['a.py:2: "ticket" is retired; write "write barrier"']


def test_a_retired_word_is_refused_in_the_name_of_a_file_or_folder() -> None:
    found = ['tickets/a.py: "ticket" is retired; write "write barrier"']
    assert list(retired("ticket").find("tickets/a.py", "")) == found


@pytest.mark.parametrize("text", ["late_ledger.py", "class LateLedger:", "a late ledger", "late-ledger"])
def test_retired_words_that_belong_together_are_refused_together(text: str) -> None:
    assert len(list(retired("late ledger").find("a.md", text))) == 1


@pytest.mark.parametrize("text", ["stickets", "a late result in the ledger", "ticketing"])
def test_what_only_contains_a_retired_word_is_not_refused(text: str) -> None:
    assert list(retired("ticket", "late ledger").find("a.md", text)) == []


@pytest.mark.parametrize("text", ["class Places:", "class Places(Index):", "Places = list[int]", "Places: Alias = str"])
def test_a_retired_name_that_is_plain_english_is_refused_where_it_is_defined(text: str) -> None:
    assert len(list(retired("Places").find("a.py", text))) == 1
    assert list(retired("Places").find("a.py", "Places are taken in order; MyPlaces, places.")) == []


@pytest.mark.parametrize("text", ["place_of(trial)", "`status.rungTells`", "rungTells:", "podtune.dev/variant: x"])
def test_other_retired_names_are_refused_anywhere(text: str) -> None:
    assert len(list(retired("place_of", "rungTells", "podtune.dev/variant").find("a.md", text))) == 1
    assert list(retired("place_of").find("a.md", "replace_of, place_offers")) == []


def test_a_retired_attribute_is_refused_behind_a_dot() -> None:
    words = retired(".settle")
    assert list(words.find("a.py", "index.settle(trial)")) == ['a.py:1: "settle" is retired; write "write barrier"']
    assert list(words.find("a.py", "settle(simulation)  # They settle. settle")) == []


@pytest.mark.parametrize(
    ("sources", "double"),
    [
        (("class Entry: ...", "class Entry: ..."), ["Entry"]),
        (("def read(): ...", "async def read(): ..."), ["read"]),
        (("LIMIT = 1", "LIMIT: int = 2"), ["LIMIT"]),
        (("class _Entry: ...", "class _Entry: ..."), []),
        (("log = get_logger()", "log = get_logger()"), []),
        (("T = TypeVar('T')", "T = TypeVar('T')"), []),
        (("def main(): ...", "def main(): ..."), []),
        (("class Entry: ...", "from a import Entry"), []),
    ],
)
def test_a_name_is_double_where_two_modules_define_it(sources: tuple[str, str], double: list[Any]) -> None:
    files = [SourceFile(f"operator/podtune/{name}.py", text) for name, text in zip("ab", sources, strict=True)]
    assert list(find_double_names(files)) == double


def test_each_term_of_the_glossary_is_explained_in_a_sentence_and_has_one_origin() -> None:
    for row in read_glossary():
        assert row["meaning"].endswith("."), row["term"]
        assert 0 < len(row["origin"]) < 30, row["term"]


def test_each_term_of_the_glossary_stands_there_once() -> None:
    terms = [row["term"] for row in read_glossary()]
    forms = [form for row in read_glossary() for form in row.get("retired", ())]
    assert len(terms) == len({term.lower() for term in terms})
    assert len(forms) == len(set(forms)), "what is retired for two terms tells nobody which to write"
