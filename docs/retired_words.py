"""Finds words that the glossary has retired, wherever they stand: in code, names of files, manifests and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
WORDS_ALONE = re.compile(r"[a-z ]+")
ONE_CAPITALIZED_WORD = re.compile(r"[A-Z][a-z]+")


class RetiredWords:
    """The retired words, each with the term to write instead; docs/glossary.yaml describes their three forms."""

    def __init__(self, glossary: Iterable[Mapping[str, Any]]) -> None:
        """Reads them from the glossary's entries."""
        self._terms: dict[str, str] = {retired: row["term"] for row in glossary for retired in row.get("retired", ())}

    def find(self, path: str, text: str) -> Iterator[str]:
        """Finds the retired words of a file, its path included; returns what is wrong and what to write instead.

        Args:
            path: The file's path, which its lines are named after.
            text: What it holds.
        """
        yield from (f"{path}: {problem}" for problem in self._find_in(path))
        if self._is_clean(text):
            return
        for number, line in enumerate(text.splitlines(), start=1):
            yield from (f"{path}:{number}: {problem}" for problem in self._find_in(line))

    def _is_clean(self, text: str) -> bool:
        """Whether a text has none at all, which is told faster than where they are."""
        return not self._names.search(text) and not self._words.search(split_into_words(text))

    def _find_in(self, line: str) -> Iterator[str]:
        found = [match[1] for match in self._words.finditer(split_into_words(line))]
        found += [next(filter(None, match.groups())) for match in self._names.finditer(line)]
        for retired in found:
            yield f'"{retired}" is retired; write "{self._terms.get(retired) or self._terms["." + retired]}"'

    @cached_property
    def _words(self) -> re.Pattern[str]:
        """Matches words, and their plural, in a text that was split into words."""
        return _match_any([rf"\b({_any_of(filter(WORDS_ALONE.fullmatch, self._terms))})s?\b"])

    @cached_property
    def _names(self) -> re.Pattern[str]:
        """Matches identifiers: a capitalized word where it is defined, attributes behind a dot, others anywhere."""
        words = [name for name in self._terms if ONE_CAPITALIZED_WORD.fullmatch(name)]
        attributes = [name.removeprefix(".") for name in self._terms if name.startswith(".")]
        others = [name for name in self._terms if not (WORDS_ALONE.fullmatch(name) or name in words or name[0] == ".")]
        return _match_any(
            [
                rf"(?m:^\s*(?:class\s+|def\s+)?)({_any_of(words)})(?=[(:]|\s+[:=]|\[)",
                rf"[\w)\]]\.({_any_of(attributes)})\b",
                rf"(?<![\w/-])({_any_of(others)})(?![\w-])",
            ]
        )


def split_into_words(text: str) -> str:
    """Splits a text, and the identifiers in it, into words in lower case: `WarmPod.put_part` is four of them."""
    return " ".join(WORD.findall(text)).lower()


def list_texts(root: Path, skipped: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Lists what people read and write of a tree: each file's path and text.

    Args:
        root: The tree.
        skipped: Files that may name what is retired, such as the changelog.
    """
    suffixes = {".py", ".md", ".yaml", ".yml", ".tpl", ".toml"}
    folders = ("operator", "tests", "e2e", "docs", "examples", "charts", "crds", "integrations")
    paths = [*root.glob("*.*"), *(path for folder in folders for path in (root / folder).rglob("*"))]
    for path in sorted(set(paths) - set(skipped)):
        if path.suffix in suffixes and path.is_file():
            yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def _any_of(names: Iterable[str]) -> str:
    """Matches one of the names; of two that begin alike the longer one."""
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or "(?!)"


def _match_any(patterns: list[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns))
