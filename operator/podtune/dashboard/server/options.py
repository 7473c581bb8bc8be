"""The options of `podtune-dashboard`. Every one is an environment variable, too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    variable = f"PODTUNE_DASHBOARD_{name.removeprefix('--').replace('-', '_').upper()}"
    return typer.Option(name, envvar=variable, help=text, metavar=metavar)


Address = Annotated[str, _option("--address", "Where to listen; :: for IPv6 as well.")]
Port = Annotated[int, _option("--port", "Where to listen; 0 for any free port.")]
Prefix = Annotated[str, _option("--prefix", "Path that all addresses begin with, such as /podtune.", "PATH")]
Namespaces = Annotated[str, _option("--namespaces", "Namespaces to show; all by default.", "A,B,…")]
Title = Annotated[str, _option("--title", "Name of the cluster, on every page.", "TEXT")]
AllowedHosts = Annotated[
    str, _option("--allowed-hosts", "Host names to answer to; with a login, any by default.", "A,B,…")
]
Actions = Annotated[bool, _option("--actions", "Offer buttons that pause, resume, stop and retry.")]
IsOpen = Annotated[bool, _option("--open", "Ask for no token, and show all to everybody: for demos.")]
SessionHours = Annotated[float, _option("--session-hours", "Hours after which a viewer logs in again.", "N")]
TlsCertificate = Annotated[
    Path | None, _option("--tls-certificate", "Certificate of the server (PEM); it then serves HTTPS.")
]
TlsKey = Annotated[Path | None, _option("--tls-key", "Private key of that certificate (PEM).")]
ProxyAuthority = Annotated[
    Path | None,
    _option("--proxy-authority", "Certificate authority of an authenticating proxy's own certificate (PEM)."),
]
ProxyUserHeader = Annotated[str, _option("--proxy-user-header", "Header in which that proxy names the viewer.", "NAME")]
ProxyGroupsHeader = Annotated[
    str, _option("--proxy-groups-header", "Header in which it names the viewer's groups.", "NAME")
]
Price = Annotated[
    str, _option("--gpu-price", "What a GPU-hour costs, for experiments whose manifest has no price.", "PRICE")
]
Currency = Annotated[str, _option("--currency", "What stands behind amounts, such as EUR.", "TEXT")]
StoreList = Annotated[
    str, _option("--stores", "Stores to read for viewers with a token, as a JSON list; see the chart.", "JSON")
]
LogLevel = Annotated[str, _option("--log-level", "debug, info, warning or error.")]
