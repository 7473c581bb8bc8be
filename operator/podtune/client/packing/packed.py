"""A function that is ready to travel: its files, and the ConfigMap and the parts of a pod that bring them to trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtune.api.pods.function_volume import FUNCTION_VOLUME
from podtune.client.packing.modules import PackingError
from podtune.kube.manifests import make_function
from podtune.protocol.agent_environment import FUNCTION_DIRECTORY

RUNNER_FILE = "podtune_runner.py"
MAX_CONFIG_MAP_BYTES = 1 << 20
"""What a ConfigMap takes: 1 MiB, by the API server's own check."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PackedFunction:
    """A function and all that travels with it.

    Attributes:
        name: The function's name.
        files: Text by path, below a directory of the pod.
    """

    name: str
    files: Mapping[str, str]

    @property
    def command(self) -> list[str]:
        """What runs it in a container; the image needs Python 3.8 or later."""
        return ["python3", "-u", f"{FUNCTION_DIRECTORY}/{RUNNER_FILE}"]

    def make_config_map(self, name: str) -> dict[str, Any]:
        """The ConfigMap of this name."""
        return make_function(name, {_make_key(path): text for path, text in self.files.items()})

    def make_volume(self, config_map: str) -> dict[str, Any]:
        """The pod's volume with the files of the ConfigMap of this name."""
        items = [{"key": _make_key(path), "path": path} for path in self.files]
        return {"name": FUNCTION_VOLUME, "configMap": {"name": config_map, "items": items}}

    def make_mount(self) -> dict[str, Any]:
        """How the training container sees that volume."""
        return {"name": FUNCTION_VOLUME, "mountPath": FUNCTION_DIRECTORY, "readOnly": True}


def check_size(files: Mapping[str, str]) -> None:
    """Checks that a ConfigMap takes the files.

    Raises:
        PackingError: It does not; the message names the largest.
    """
    sizes = {path: len(text.encode()) for path, text in files.items()}
    if (total := sum(sizes.values())) <= MAX_CONFIG_MAP_BYTES:
        return
    largest = sorted(sizes, key=lambda path: -sizes[path])[:_SHOWN]
    shown = ", ".join(f"{path} ({sizes[path]:,} bytes)" for path in largest)
    raise PackingError(
        f"the function and its modules take {total:,} bytes, but a ConfigMap holds {MAX_CONFIG_MAP_BYTES:,}; install "
        f"large modules in the image. The largest: {shown}"
    )


def _make_key(path: str) -> str:
    """The file's key in a ConfigMap, which takes no slashes; parts of a path have no dots, so no two keys are alike."""
    return path.replace("/", ".")
