"""Starts `kubectl podtune` from its one file: `__main__.py` in there.

Some packages hold compiled modules, and those can't be imported from an archive. So what this version of Python needs
is unpacked once, into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

ARCHIVE = Path(sys.path[0])
VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


def unpack() -> Path:
    """Unpacks the packages for this Python where that is not done yet; returns their folder."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        offered = {name.split("/")[1] for name in archive.namelist() if name.startswith("lib/")} - {"any"}
        if VERSION not in offered:
            known = ", ".join(sorted(offered, key=lambda version: int(version.partition(".")[2])))
            sys.exit(f"error: python3 is Python {VERSION}; put one of these first in PATH: {known}")
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "podtune"
        folder = cache / f"{archive.read('digest.txt').decode()}-{VERSION}"
        if folder.is_dir():
            return folder
        cache.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=cache, prefix="unpacking-"))
        try:
            for name in archive.namelist():
                _, part, *rest = [*name.split("/"), ""]
                if name.startswith("lib/") and part in ("any", VERSION) and rest:
                    path = work.joinpath(*filter(None, rest))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(name))
            work.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
        return folder


if __name__ == "__main__":
    sys.path.insert(0, str(unpack()))
    from podtune.cli.main import main

    sys.exit(main())
