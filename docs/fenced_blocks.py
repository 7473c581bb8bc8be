"""The fenced blocks of the documentation, and what is done with each of them.

A block of commands follows a comment that readers of the page don't see:

- `<!-- run: NAME -->`: the end-to-end tests run it in the session of that name, where other blocks may come before it;
- `<!-- run: PATH -->`: the test at that path runs it;
- `<!-- not run: REASON -->`: nothing runs it, for that reason.

`<!-- printed -->` stands above a block with what the commands before it print: the test that runs them compares it.
There, `…` is whatever differs from run to run: on a line of its own any lines, else any text of the line.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SHELLS = frozenset({"sh", "bash", "console"})
PROMPT = "$ "
ANYTHING = "…"

_BLOCK = re.compile(
    r"(?:^ *<!-- (?:(?P<verb>run|not run): (?P<argument>[^\n]*?)|(?P<printed>printed)) -->\n)?"
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
        is_output: Whether it holds what the block before it prints.
        output: What its commands print; empty where the page doesn't say.
    """

    page: Path
    line: int
    language: str
    text: str
    run_by: str = ""
    not_run: str = ""
    is_output: bool = False
    output: str = ""

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


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether something was printed as a page shows it; how wide the gaps of tables are is no difference.

    Args:
        shown: A block that a page has.
        printed: What commands have printed.
    """
    lines = [r"(?:.*\n)*" if line.strip() == ANYTHING else f"{_make_pattern(line)}\n" for line in shown.splitlines()]
    text = "".join(f"{' '.join(line.split())}\n" for line in printed.splitlines())
    return re.fullmatch("".join(lines), text) is not None


def _make_pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in " ".join(line.split()).split(ANYTHING))


def list_pages() -> list[Path]:
    """Every page with documentation in it."""
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    return [*tops, *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def find_blocks(page: Path) -> Iterator[Block]:
    """All blocks of a page, in order."""
    blocks = list(_read_blocks(page))
    for block, after in zip_longest(blocks, blocks[1:]):
        yield replace(block, output=after.text) if after and after.is_output else block


def _read_blocks(page: Path) -> Iterator[Block]:
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
            is_output=match["printed"] is not None,
        )


def find_session(name: str) -> Iterator[Block]:
    """The blocks of a session, in the order of the pages and of the blocks on each."""
    for page in list_pages():
        yield from (block for block in find_blocks(page) if block.run_by == name)
