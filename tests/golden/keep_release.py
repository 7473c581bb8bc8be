"""Keeps a release's chart, definitions, objects and messages, for later versions to be tested with.

Start it beside `make e2e`, and interrupt it when the tests have ended:

    python -m e2e.devcluster exec -- python -m tests.golden.keep_release

It watches the cluster's Experiments, Trials and their pods. Of all that it sees, it keeps the fewest objects that show
every field and every state, in `tests/golden/releases/VERSION`.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from podtune import __version__
from tests.golden.messages import MESSAGES

Object = dict[str, Any]

ROOT = Path(__file__).parents[2]
RELEASES = Path(__file__).parent / "releases"
WATCHED = {
    "experiments": ("experiments.podtune.dev",),
    "trials": ("trials.podtune.dev",),
    "pods": ("pods", "-l", "podtune.dev/trial"),
    "storage-pods": ("pods", "-l", "podtune.dev/storage"),
}
"""Names of the files, with what kubectl is to watch for each."""
STATES = frozenset({"kind", "phase", "policy", "reason", "state", "status", "type", "purpose", "trigger", "action"})
"""Fields whose every value is worth an object; of others, that they are there."""
OPAQUE = frozenset(
    {"labels", "annotations", "managedFields", "parameters", "metrics", "best", "env", "args", "command"}
)
"""Fields that are no structure of ours below their names."""


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The whole object once more."""


MAX_WORDS = 200
"""Characters that are kept of each word of a command: some are whole programs."""


class Collection:
    """The objects of one kind, each kept if it shows something that none before it did."""

    def __init__(self) -> None:
        self._kept: list[tuple[frozenset[str], Object]] = []
        self._seen: set[str] = set()

    def add(self, found: Object) -> None:
        """Takes an object in, as it is now."""
        found["metadata"].get("annotations", {}).pop(LAST_APPLIED, None)
        shorten_commands(found)
        facets = frozenset(find_facets(found))
        if not facets <= self._seen:
            self._seen |= facets
            self._kept.append((facets, found))

    def choose(self) -> list[Object]:
        """The fewest that show everything, as far as a greedy choice finds them."""
        missing, chosen = set(self._seen), list[Object]()
        while missing:
            facets, found = max(self._kept, key=lambda kept: len(kept[0] & missing))
            missing -= facets
            chosen.append(found)
        return chosen


def shorten_commands(value: object) -> None:
    """Cuts what containers run, wherever in an object that is said."""
    if isinstance(value, list):
        for below in value:
            shorten_commands(below)
    elif isinstance(value, dict):
        for key, below in value.items():
            if key in ("command", "args") and isinstance(below, list):
                value[key] = [word[:MAX_WORDS] if isinstance(word, str) else word for word in below]
            else:
                shorten_commands(below)


def find_facets(value: object, path: str = "") -> Iterator[str]:
    """What an object shows: each field that it has, and the values of those that name a state."""
    name = path.rpartition(".")[2]
    is_opaque = name in OPAQUE or path.endswith(".trialTemplate.spec")
    if isinstance(value, dict) and not is_opaque:
        for key, below in value.items():
            yield from find_facets(below, f"{path}.{key}")
    elif isinstance(value, list) and not is_opaque:
        for below in value:
            yield from find_facets(below, path)
    else:
        yield f"{path}={value}" if name in STATES else path


def read_stream(stream: Iterable[str]) -> Iterator[Object]:
    """The objects that kubectl prints, each on lines of its own that end with a brace at their beginning."""
    lines: list[str] = []
    for line in stream:
        lines.append(line)
        if line.rstrip() == "}":
            yield json.loads("".join(lines))
            lines.clear()


def watch(words: tuple[str, ...], collection: Collection) -> tuple[subprocess.Popen[str], threading.Thread]:
    """Has a collection filled for as long as the process that is returned lives."""
    command = ["kubectl", "get", *words, "--all-namespaces", "--watch", "--output=json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    stream = process.stdout

    def collect() -> None:
        for found in read_stream(stream):
            collection.add(found)

    thread = threading.Thread(target=collect)
    thread.start()
    return process, thread


def main() -> int:
    """Collects until it is interrupted, and writes what was kept."""
    folder = RELEASES / __version__
    folder.mkdir(parents=True, exist_ok=True)
    collections = {name: Collection() for name in WATCHED}
    watches = [watch(words, collections[name]) for name, words in WATCHED.items()]
    print("collecting; interrupt me when the tests have ended", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        signal.pause()
    except KeyboardInterrupt:
        for process, thread in watches:
            process.terminate()
            thread.join()
    for name, collection in collections.items():
        chosen = collection.choose()
        lines = [json.dumps(found, sort_keys=True, separators=(",", ":")) + "\n" for found in chosen]
        (folder / f"{name}.jsonl").write_text("".join(lines))
        print(f"{name}: {len(chosen)}, {sum(map(len, lines)):,} bytes")
    (folder / "messages.json").write_text(
        json.dumps({kind: message.text for kind, message in MESSAGES.items()}, indent=1) + "\n"
    )
    for source, kept in ((ROOT / "charts" / "podtune", folder / "chart"), (ROOT / "crds", folder / "crds")):
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(source, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
