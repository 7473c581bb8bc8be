"""`podtune-dashboard`: the dashboard as a server in a cluster. Every option is an environment variable, too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.server.cluster_server import run_server
from podtune.dashboard.server.logs import configure_logging
from podtune.dashboard.server.settings import (
    DEFAULT_PORT,
    DEFAULT_SESSION_HOURS,
    TlsFiles,
    check_settings,
)
from podtune.kube.errors import ApiError

_UsageError: Any = typer.BadParameter.__mro__[1]


def _option(name: str, text: str, metavar: str | None = None) -> Any:
    variable = f"PODTUNE_DASHBOARD_{name.removeprefix('--').replace('-', '_').upper()}"
    return typer.Option(name, envvar=variable, help=text, metavar=metavar)


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command()
def serve_dashboard(
    *,
    address: Annotated[str, _option("--address", "Where to listen; :: for IPv6 as well.")] = "0.0.0.0",
    port: Annotated[int, _option("--port", "Where to listen; 0 for any free port.")] = DEFAULT_PORT,
    prefix: Annotated[str, _option("--prefix", "Path that all addresses begin with, such as /podtune.", "PATH")] = "",
    namespaces: Annotated[str, _option("--namespaces", "Namespaces to show; all by default.", "A,B,…")] = "",
    title: Annotated[str, _option("--title", "Name of the cluster, on every page.", "TEXT")] = "",
    allowed_hosts: Annotated[
        str, _option("--allowed-hosts", "Host names to answer to; with a login, any by default.", "A,B,…")
    ] = "",
    actions: Annotated[bool, _option("--actions", "Offer buttons that pause, resume, stop and retry.")] = False,
    is_open: Annotated[bool, _option("--open", "Ask for no token, and show all to everybody: for demos.")] = False,
    session_hours: Annotated[
        float, _option("--session-hours", "Hours after which a viewer logs in again.", "N")
    ] = DEFAULT_SESSION_HOURS,
    tls_certificate: Annotated[
        Path | None, _option("--tls-certificate", "Certificate of the server (PEM); it then serves HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, _option("--tls-key", "Private key of that certificate (PEM).")] = None,
    proxy_authority: Annotated[
        Path | None,
        _option("--proxy-authority", "Certificate authority of an authenticating proxy's own certificate (PEM)."),
    ] = None,
    proxy_user_header: Annotated[
        str, _option("--proxy-user-header", "Header in which that proxy names the viewer.", "NAME")
    ] = "",
    proxy_groups_header: Annotated[
        str, _option("--proxy-groups-header", "Header in which it names the viewer's groups.", "NAME")
    ] = "",
    gpu_price: Annotated[
        str, _option("--gpu-price", "What a GPU-hour costs, for experiments whose manifest has no price.", "PRICE")
    ] = "",
    currency: Annotated[str, _option("--currency", "What stands behind amounts, such as EUR.", "TEXT")] = "",
    stores: Annotated[
        str, _option("--stores", "Stores to read for viewers with a token, as a JSON list; see the chart.", "JSON")
    ] = "",
    log_level: Annotated[str, _option("--log-level", "debug, info, warning or error.")] = "info",
) -> None:
    """Show the experiments of a cluster in the browser, to each viewer those that they may see."""
    settings = check_settings(
        address=address,
        port=port,
        prefix=prefix,
        namespaces=namespaces,
        title=title,
        allowed_hosts=allowed_hosts,
        actions=actions,
        is_open=is_open,
        session_hours=session_hours,
        tls=TlsFiles(tls_certificate, tls_key, proxy_authority),
        proxy=ProxyTrust(proxy_user_header, proxy_groups_header),
        gpu_price=gpu_price,
        currency=currency,
        stores=stores,
        log_level=log_level,
    )
    configure_logging(settings.log_level)
    run_server(settings)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the server until it is told to end; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = app(given, prog_name="podtune-dashboard", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except (CliError, ApiError) as error:
        typer.echo(f"podtune-dashboard: {explain_error(error)}", err=True)
        return 1
    except _UsageError as error:
        typer.echo(f"podtune-dashboard: {error.format_message().rstrip('.')}; --help shows what there is", err=True)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
