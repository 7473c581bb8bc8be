"""The fenced blocks of the documentation, and what is done with each of them.

A block of commands follows a comment that readers of the page don't see:

- `<!-- run: NAME -->`: the end-to-end tests run it in the session of that name, where other blocks may come before it;
- `<!-- run: PATH -->`: the test at that path runs it;
- `<!-- not run: REASON -->`: nothing runs it, for that reason.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHELLS = frozenset({"sh", "bash", "console"})
PROMPT = "$ "

_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<verb>run|not run): (?P<argument>[^\n]*?) -->\n)?"
    r"^ *```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: The file that it stands in.
        line: Number of the line that opens it.
        language: The word behind the fence; may be empty.
        text: What is in it, without indentation.
        run_by: Session or test that runs it; empty where none does.
        not_run: Why nothing runs it; empty where something does, or where nobody says.
    """

    page: Path
    line: int
    language: str
    text: str
    run_by: str = ""
    not_run: str = ""

    @property
    def place(self) -> str:
        """Where to find it, for people."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def is_commands(self) -> bool:
        """Whether it is meant to be typed into a shell."""
        return self.language in SHELLS

    def commands(self) -> list[str]:
        """The commands that a reader types, a string each, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
        return [line for line in lines if shlex.split(line, comments=True)]


def list_pages() -> list[Path]:
    """Every page with documentation in it."""
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    return [*tops, *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def find_blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        said = {match["verb"]: match["argument"]} if match["verb"] else {}
        yield Block(
            page=page,
            line=text.count("\n", 0, match.end("language")) + 1,
            language=match["language"],
            text=textwrap.dedent(match["text"]),
            run_by=said.get("run", ""),
            not_run=said.get("not run", ""),
        )


def find_session(name: str) -> Iterator[Block]:
    """The blocks of a session, in the order of the pages and of the blocks on each."""
    for page in list_pages():
        yield from (block for block in find_blocks(page) if block.run_by == name)
