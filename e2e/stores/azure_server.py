"""Azurite, Microsoft's emulator of Azure Blob Storage, as a process of this machine."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from e2e.chaos.processes.free_ports import free_port
from e2e.devcluster.building.azurite import find_azurite
from e2e.devcluster.processes import wait_until

ACCOUNT = "podtunetests"
_VERSION = "2021-08-06"


@dataclass(frozen=True)
class AzureServer:
    """An account of a server that runs.

    Attributes:
        key: The account's.
    """

    url: str
    key: str

    def create_container(self, name: str) -> None:
        """Makes a container."""
        heads = {"x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"), "x-ms-version": _VERSION}
        named = "".join(f"{head}:{value}\n" for head, value in heads.items())
        signed = self._sign("PUT" + "\n" * 12 + f"{named}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container")
        request = urllib.request.Request(
            f"{self.url}/{ACCOUNT}/{name}?restype=container",
            method="PUT",
            headers={**heads, "Authorization": f"SharedKey {ACCOUNT}:{signed}"},
        )
        urllib.request.urlopen(request, timeout=10).close()

    def sign_sas(self, container: str, permissions: str) -> str:
        """A shared access signature for a container; see Microsoft's "Create a service SAS"."""
        end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        what = [permissions, "", end, f"/blob/{ACCOUNT}/{container}", "", "", "", _VERSION, "c", *[""] * 7]
        values = {"sp": permissions, "se": end, "sv": _VERSION, "sr": "c", "sig": self._sign("\n".join(what))}
        return urlencode(values)

    def _sign(self, text: str) -> str:
        return base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)).decode()


@contextmanager
def running_azure_server(host: str = "127.0.0.1") -> Iterator[AzureServer]:
    """Runs a server that keeps everything in memory, at an address of this machine."""
    port = free_port(host)
    server = AzureServer(f"http://{host}:{port}", base64.b64encode(os.urandom(32)).decode())
    process = subprocess.Popen(
        [
            *find_azurite(), "--silent", "--disableTelemetry", "--inMemoryPersistence", "--blobHost", host,
            "--blobPort", str(port),
        ],
        env={"AZURITE_ACCOUNTS": f"{ACCOUNT}:{server.key}", "PATH": os.environ["PATH"], "HOME": os.devnull},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: _answers(server.url), f"Azurite does not answer at {server.url}", 60)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as refusal:
        refusal.close()  # it refuses who has no signature, so it is there
    except OSError:
        return False
    return True
