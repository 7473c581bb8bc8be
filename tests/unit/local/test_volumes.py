"""Volumes that one machine can give."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from podtune.cli.errors import CliError
from podtune.local.volumes import Mount, find_mounts, replace_paths, write_config_maps

CODE: dict[str, Any] = {
    "data": {"train.py": "print(1)\n", "pkg.util.py": "x = 1\n"},
    "binaryData": {"logo": base64.b64encode(b"\0\1").decode()},
}


def _make_pod(volume: dict[str, Any], **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/code/", **mount}, {"name": "podtune", "mountPath": "/podtune"}]
    volumes = [{"name": "v", **volume}, {"name": "podtune", "emptyDir": {}}]
    return {"spec": {"containers": [{"name": "trial", "volumeMounts": mounts}], "volumes": volumes}}


def _mount(pod: dict[str, Any], path: Path) -> list[Mount]:
    return find_mounts(pod, pod["spec"]["containers"][0], path / "shared", path / "own")


def test_the_files_of_a_config_map_are_where_its_volume_puts_them(tmp_path: Path) -> None:
    items = [{"key": "train.py", "path": "train.py"}, {"key": "pkg.util.py", "path": "pkg/util.py"}]
    some, whole = (
        _make_pod({"configMap": {"name": "code", **more}}) for more in ({"items": items}, {"optional": True})
    )
    for pod in (some, whole):
        write_config_maps(pod["spec"], {"code": CODE}, tmp_path / "shared")
    (mount,), (other,) = _mount(some, tmp_path), _mount(whole, tmp_path)
    assert (mount.path, mount.is_read_only) == ("/code", True)
    assert (mount.folder / "pkg/util.py").read_text() == "x = 1\n"
    assert not (mount.folder / "logo").exists()
    assert sorted(path.name for path in other.folder.iterdir()) == ["logo", "pkg.util.py", "train.py"]
    assert (other.folder / "logo").read_bytes() == b"\0\1"


def test_an_empty_folder_is_the_pods_own(tmp_path: Path) -> None:
    (mount,) = _mount(_make_pod({"emptyDir": {}}, subPath="a"), tmp_path)
    assert mount == Mount(tmp_path / "own/v/a", "/code", is_read_only=False)
    assert mount.folder.is_dir()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"key": "train.py", "path": "../../train.py"}, "leads out of its volume"),
        ({"key": "train.py", "path": "/etc/passwd"}, "leads out of its volume"),
        ({"key": "none", "path": "none"}, "it has no key 'none'"),
    ],
)
def test_what_a_config_map_cant_give_is_told(item: dict[str, Any], message: str, tmp_path: Path) -> None:
    pod = _make_pod({"configMap": {"name": "code", "items": [item]}})
    with pytest.raises(CliError, match=message):
        write_config_maps(pod["spec"], {"code": CODE}, tmp_path)
    assert not list(tmp_path.rglob("passwd"))


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("/code/run.py", "/here/run.py"),
        ("--config=/code", "--config=/here"),
        ("/code:/code/lib", "/here:/here/lib"),
        ("cd '/code' && ls", "cd '/here' && ls"),
        ("/codec/x /my/code/x /code-2", "/codec/x /my/code/x /code-2"),
        ("/code/data/x", "/there/x"),
    ],
)
def test_paths_below_a_mount_are_replaced_and_no_others(text: str, replaced: str) -> None:
    mounts = [Mount(Path("/there"), "/code/data", is_read_only=True), Mount(Path("/here"), "/code", is_read_only=True)]
    assert replace_paths(text, mounts) == replaced
