"""Environments of other packages: each is made by uv, once, and kept in uv's cache."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
INSTALLATION = 1800.0
"""Seconds that an installation may take: some are of gigabytes."""


class Missing(Exception):
    """The environment can't be had; the text says why."""


class Environment:
    """Runs modules of this package where the packages of a file in requirements/ are installed."""

    def __init__(self, requirements: str) -> None:
        """Names the environment.

        Args:
            requirements: Name of the file, such as replay.txt.
        """
        self._file = ROOT / "requirements" / requirements
        self._offline: list[str] = []

    def install(self) -> None:
        """Installs the packages, if they are not in the cache.

        Raises:
            Missing: They can't be installed.
        """
        try:
            made = self._uv("python", "-c", "", timeout=INSTALLATION)
            if made.returncode != 0:  # as beside the local cluster, whose network ends there: what is cached may do
                self._offline = ["--offline"]
                made = self._uv("python", "-c", "", timeout=INSTALLATION)
        except subprocess.TimeoutExpired as error:
            raise Missing(f"{self._file.name} is not installed within {INSTALLATION:g} s") from error
        if made.returncode != 0:
            raise Missing(f"{self._file.name} can't be installed: {made.stderr.strip().splitlines()[-1:]}")

    def run(self, module: str, *arguments: str, timeout: float | None = None) -> Any:
        """Runs a module; what it prints last is JSON.

        Raises:
            Missing: The packages can't be installed, or the module fails with them.
        """
        self.install()
        try:
            ran = self._uv("python", "-m", module, *arguments, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise Missing(f"{module} has not ended within {timeout:g} s") from error
        printed = ran.stdout.strip().splitlines()
        if ran.returncode != 0 or not printed:
            raise Missing(f"{module} failed: {ran.stderr.strip().splitlines()[-1:]}")
        return json.loads(printed[-1])

    def describe_run(self, module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """The command that runs a module for as long as somebody needs it, and its environment.

        Raises:
            Missing: The packages can't be installed.
        """
        self.install()
        return self._describe("python", "-m", module, *arguments)

    def _uv(self, *command: str, timeout: float | None) -> subprocess.CompletedProcess[str]:
        run, environment = self._describe(*command)
        return subprocess.run(
            run, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
        )

    def _describe(self, *command: str) -> tuple[list[str], dict[str, str]]:
        beside = Path(sys.executable).with_name("uv")
        uv = str(beside) if beside.exists() else shutil.which("uv")
        if uv is None:
            raise Missing(f"uv is neither beside {sys.executable} nor on the PATH; install it: pip install uv")
        run = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
        path = os.pathsep.join([str(ROOT), str(ROOT / "operator")])
        run += [*self._offline, "--with-requirements", str(self._file), *command]
        return run, {**os.environ, "PYTHONPATH": path}
