"""`podtune-dashboard`: the dashboard as a server in a cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from podtune.cli.errors import CliError, explain_error
from podtune.dashboard.access.session import ProxyTrust
from podtune.dashboard.server import options
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


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.command()
def serve_dashboard(
    *,
    address: options.Address = "0.0.0.0",
    port: options.Port = DEFAULT_PORT,
    prefix: options.Prefix = "",
    namespaces: options.Namespaces = "",
    title: options.Title = "",
    allowed_hosts: options.AllowedHosts = "",
    actions: options.Actions = False,
    is_open: options.IsOpen = False,
    session_hours: options.SessionHours = DEFAULT_SESSION_HOURS,
    tls_certificate: options.TlsCertificate = None,
    tls_key: options.TlsKey = None,
    proxy_authority: options.ProxyAuthority = None,
    proxy_user_header: options.ProxyUserHeader = "",
    proxy_groups_header: options.ProxyGroupsHeader = "",
    gpu_price: options.Price = "",
    currency: options.Currency = "",
    stores: options.StoreList = "",
    log_level: options.LogLevel = "info",
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
