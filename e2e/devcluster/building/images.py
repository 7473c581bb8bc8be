"""Images on the nodes: those the cluster brings along, and loading any archive into a node's containerd."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.devcluster.building import archives
from e2e.devcluster.building.archives import Archive, File
from e2e.devcluster.building.packages import program
from e2e.devcluster.errors import ClusterError
from e2e.devcluster.layout import NODES, Layout, Node
from e2e.devcluster.processes import run

PAUSE = "localhost/podtune-pause:1"
BUSYBOX = "localhost/busybox:1"
_CONTAINERD_NAMESPACE = "k8s.io"
_PINS = Path(__file__).parents[1] / "tools" / "go.mod"
_PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
_FOREVER = str(2**31 - 1)


def s3_tag() -> str:
    """Return the tag of the S3 server's image, which carries the pinned version."""
    match = re.search(r"versity/versitygw v(\S+)", _PINS.read_text())
    if match is None:
        raise ClusterError(f"{_PINS} does not pin versitygw")
    return f"localhost/podtune-s3:{match[1]}"


def bundled(tools: Path) -> list[Archive]:
    """Return the images every cluster has: pause, busybox and the S3 server."""
    return [_pause(), _busybox(), s3_server(tools)]


def load(layout: Layout, archive: Archive, nodes: Sequence[Node] = NODES) -> list[str]:
    """Import an image into the nodes' containerd.

    Args:
        layout: Where the cluster is.
        archive: The version to import.
        nodes: The nodes that need it.

    Returns:
        The names of the nodes that did not have this version yet.
    """
    changed = []
    for node in nodes:
        record = layout.loaded_images / f"{archive.path.parent.name}@{node.name}"
        key, superseded = record.read_text().split() if record.exists() else ("", "")
        if key == archive.key:
            continue
        _ctr(layout, node, "images", "import", str(archive.path))
        image_id = archive.image_id()
        if superseded and superseded != image_id:
            # The tag names the new one by now; this is the runtime's own name for the old one.
            _ctr(layout, node, "images", "remove", superseded)
        record.write_text(f"{archive.key} {image_id}")
        changed.append(node.name)
    return changed


def runtime_answers(layout: Layout, node: Node) -> bool:
    """Return whether a node's containerd serves images."""
    command = [program("ctr"), "-a", str(layout.containerd_socket(node)), "version"]
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=10).returncode == 0
    except subprocess.TimeoutExpired:  # whoever starts it sets how long it may take
        return False


def _ctr(layout: Layout, node: Node, *arguments: str) -> str:
    socket = layout.containerd_socket(node)
    return run([program("ctr"), "-a", socket, "-n", _CONTAINERD_NAMESPACE, *arguments], timeout=300)


def _busybox_files() -> list[File]:
    busybox = Path(program("busybox"))
    return [
        *(File(path, directory=True) for path in ("bin", "etc", "usr", "usr/bin", "usr/local", "usr/local/bin")),
        File("tmp", directory=True, mode=0o1777),
        File("etc/passwd", text="root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", mode=0o644),
        File("etc/group", text="root:x:0:\nnogroup:x:65534:\n", mode=0o644),
        File("bin/busybox", source=busybox),
    ]


def _pause() -> Archive:
    # It only has to exist: sandboxes are stopped with SIGKILL, and nothing here shares a process namespace.
    config = {"Entrypoint": ["/bin/busybox", "sleep", _FOREVER], "User": "65534:65534"}
    return archives.ensure_one_layer(PAUSE, _busybox_files(), config)


def _busybox() -> Archive:
    applets = run([program("busybox"), "--list"]).split()
    links = [File(f"bin/{name}", link="busybox", mode=0o777) for name in applets if name != "busybox"]
    return archives.ensure_one_layer(BUSYBOX, [*_busybox_files(), *links], {"Cmd": ["sh"], "Env": [_PATH]})


def s3_server(tools: Path) -> Archive:
    files = [
        *(File(path, directory=True) for path in ("usr", "usr/local", "usr/local/bin", "data")),
        File("tmp", directory=True, mode=0o1777),
        File("usr/local/bin/versitygw", source=tools / "versitygw"),
    ]
    return archives.ensure_one_layer(s3_tag(), files, {"Entrypoint": ["/usr/local/bin/versitygw"], "Env": [_PATH]})
