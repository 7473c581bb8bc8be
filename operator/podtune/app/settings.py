"""The operator's settings, read from the environment, which the chart writes."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from podtune.api.base import FieldError
from podtune.api.names import OBJECT_NAME, USUAL_HOME
from podtune.api.pods.container_resources import check_resources
from podtune.api.pods.template_policy import DEFAULT_ANNOTATION_DOMAINS, DEFAULT_TOLERATIONS, TemplatePolicy
from podtune.cluster.pods.manifest import AgentSettings
from podtune.controllers.pods.namespace_caps import PodLimits
from podtune.tracing.collector import Collector, CollectorError, parse_collector
from podtune.webhooks.receivers import Receiver, ReceiverError, parse_receivers

_UNLIMITED = "unlimited"
MAX_PODS = 1_000_000


class SettingsError(ValueError):
    """A setting is missing or wrong; the text names the variable and the remedy."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS of the results server; one of the last two is set.

    Attributes:
        port: Where it is served.
        host: By which name agents call it.
        secret: The Secret of our own namespace that keeps authorities of our own making; empty where there is none.
        directory: Where somebody else's certificate is mounted; None where there is none.
    """

    port: int
    host: str
    secret: str
    directory: Path | None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an installation may choose.

    Attributes:
        agent: The agent's container.
        namespaces: Namespaces that are served; none for all.
        template_policy: What trial templates may say beyond what always goes, and may not.
        pod_limits: How many pods of trials each namespace may have at a time.
        pod_name: Name of the operator's own pod; empty outside of a cluster.
        pod_namespace: Its namespace, where the Lease is too.
        identity: Who we are in the Lease.
        lease_name: Name of the Lease.
        results_port: Port of the results server for plain HTTP; None where it has none.
        results_tls: Its TLS; None where it has none.
        probe_port: Port of probes, and of the metrics where they have none of their own.
        metrics_port: Port of the metrics alone, with the TLS of the results server; None where there is none.
        metrics_authentication: Whether Kubernetes is asked who may read the metrics.
        log_level: debug, info, warning or error.
        proposal_deadline: Seconds after which a searcher that still thinks is called slow.
        webhooks: Who hears of what happens.
        tracing: Where traces go; None where there are none.
        opt_in_command: With which a person has a namespace served, where each has to opt in; else empty.
    """

    agent: AgentSettings
    namespaces: tuple[str, ...]
    template_policy: TemplatePolicy
    pod_limits: PodLimits
    pod_name: str
    pod_namespace: str
    identity: str
    lease_name: str
    results_port: int | None
    results_tls: TlsSettings | None
    probe_port: int
    metrics_port: int | None
    metrics_authentication: bool
    log_level: str
    proposal_deadline: int
    webhooks: tuple[Receiver, ...] = ()
    tracing: Collector | None = None
    opt_in_command: str = ""


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Reads the settings.

    Raises:
        SettingsError: One is missing or wrong.
    """
    pod_name = environment.get("PODTUNE_POD_NAME", "")
    namespace = environment.get("PODTUNE_POD_NAMESPACE", "default")
    results_url = environment.get("PODTUNE_RESULTS_URL", f"http://podtune-results.{namespace}.svc:8080")
    tls = _read_tls(environment, results_url)
    level = environment.get("PODTUNE_LOG_LEVEL", "info").lower()
    if level not in ("debug", "info", "warning", "error"):
        raise SettingsError(f"PODTUNE_LOG_LEVEL is {level!r}; use debug, info, warning or error")
    return Settings(
        agent=AgentSettings(
            image=_read_required(environment, "PODTUNE_AGENT_IMAGE"),
            pull_policy=environment.get("PODTUNE_AGENT_PULL_POLICY", "IfNotPresent"),
            results_url=results_url,
            non_root=_read_boolean(environment, "PODTUNE_TRIALS_RUN_AS_NON_ROOT"),
            resources=_read_resources(environment, "PODTUNE_AGENT_RESOURCES"),
            traces=bool(environment.get("PODTUNE_TRACING")),
        ),
        namespaces=_list(environment, "PODTUNE_NAMESPACES"),
        template_policy=_read_template_policy(environment, results_url),
        pod_limits=_read_pod_limits(environment),
        pod_name=pod_name,
        pod_namespace=namespace,
        identity=f"{pod_name or socket.gethostname()}_{environment.get('PODTUNE_POD_UID', str(os.getpid()))}",
        lease_name=environment.get("PODTUNE_LEASE_NAME", "podtune-operator"),
        results_port=_read_plain_port(environment, tls),
        results_tls=tls,
        probe_port=_read_number(environment, "PODTUNE_LISTEN_PROBES", 8081, 65535, "port number"),
        metrics_port=_read_metrics_port(environment, tls),
        metrics_authentication=_read_boolean(environment, "PODTUNE_METRICS_AUTHENTICATION"),
        log_level=level,
        proposal_deadline=_read_number(
            environment, "PODTUNE_PROPOSAL_DEADLINE", 120, 86400, "whole number of seconds,"
        ),
        webhooks=_read_receivers(environment),
        tracing=_read_collector(environment),
        opt_in_command=_read_opt_in_command(environment, namespace),
    )


def _read_opt_in_command(environment: Mapping[str, str], own_namespace: str) -> str:
    if not _read_boolean(environment, "PODTUNE_NAMESPACE_OPT_IN"):
        return ""
    if environment.get("PODTUNE_NAMESPACES"):
        raise SettingsError("PODTUNE_NAMESPACE_OPT_IN is true, so leave PODTUNE_NAMESPACES empty: each opts in itself")
    place = "" if own_namespace == USUAL_HOME else f" --operator-namespace {own_namespace}"
    return f"kubectl podtune enable{place}"


def _read_tls(environment: Mapping[str, str], results_url: str) -> TlsSettings | None:
    """Agents use TLS where the URL that they are given says https."""
    url = urlsplit(results_url)
    secret = environment.get("PODTUNE_RESULTS_TLS_SECRET", "")
    directory = environment.get("PODTUNE_RESULTS_TLS_DIRECTORY", "")
    if url.scheme != "https":
        if secret or directory:
            words = "which has no use for PODTUNE_RESULTS_TLS_SECRET and PODTUNE_RESULTS_TLS_DIRECTORY"
            raise SettingsError(f"PODTUNE_RESULTS_URL is {results_url!r}, {words}; write https, or leave them out")
        return None
    if bool(secret) == bool(directory):
        words = "which needs one of PODTUNE_RESULTS_TLS_SECRET and PODTUNE_RESULTS_TLS_DIRECTORY"
        raise SettingsError(f"PODTUNE_RESULTS_URL is {results_url!r}, {words}; the chart sets it by results.tls")
    if secret and not re.fullmatch(OBJECT_NAME, secret):
        raise SettingsError(f"PODTUNE_RESULTS_TLS_SECRET is {secret!r}; use the name of a Secret")
    port = _read_number(environment, "PODTUNE_LISTEN_RESULTS_TLS", 8443, 65535, "port number")
    return TlsSettings(port, url.hostname or "", secret, Path(directory) if directory else None)


def _read_plain_port(environment: Mapping[str, str], tls: TlsSettings | None) -> int | None:
    """With TLS, plain HTTP is for the agents that an operator without TLS has started."""
    port = _read_number(environment, "PODTUNE_LISTEN_RESULTS", 8080, 65535, "port number")
    if not _read_boolean(environment, "PODTUNE_RESULTS_PLAIN_HTTP", "false" if tls else "true"):
        if tls is None:
            words = "PODTUNE_RESULTS_PLAIN_HTTP is 'false', but agents have no other way"
            raise SettingsError(f"{words}; give PODTUNE_RESULTS_URL https, or leave it out")
        return None
    return port


def _read_metrics_port(environment: Mapping[str, str], tls: TlsSettings | None) -> int | None:
    if "PODTUNE_LISTEN_METRICS_TLS" not in environment:
        return None
    if tls is None:
        words = "PODTUNE_LISTEN_METRICS_TLS is set, but there is no TLS"
        raise SettingsError(f"{words}; give PODTUNE_RESULTS_URL https, or leave it out")
    return _read_number(environment, "PODTUNE_LISTEN_METRICS_TLS", 8444, 65535, "port number")


def _read_receivers(environment: Mapping[str, str]) -> tuple[Receiver, ...]:
    try:
        return parse_receivers(environment.get("PODTUNE_WEBHOOKS", "[]"))
    except ReceiverError as error:
        raise SettingsError(f"PODTUNE_WEBHOOKS {error}") from error


def _read_collector(environment: Mapping[str, str]) -> Collector | None:
    try:
        return parse_collector(environment.get("PODTUNE_TRACING", ""))
    except CollectorError as error:
        raise SettingsError(f"PODTUNE_TRACING {error}") from error


def _read_required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set; the chart sets it, outside of a cluster set it yourself")
    return value


def _list(environment: Mapping[str, str], name: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """An empty list is one, too: the default is for a variable that is not there."""
    return tuple(part.strip() for part in environment.get(name, ",".join(default)).split(",") if part.strip())


def _read_template_policy(environment: Mapping[str, str], results_url: str) -> TemplatePolicy:
    return TemplatePolicy(
        service_accounts=_list(environment, "PODTUNE_ALLOWED_SERVICE_ACCOUNTS"),
        priority_classes=_list(environment, "PODTUNE_ALLOWED_PRIORITY_CLASSES"),
        tolerations=_list(environment, "PODTUNE_ALLOWED_TOLERATIONS", DEFAULT_TOLERATIONS),
        annotation_domains=_list(environment, "PODTUNE_ALLOWED_ANNOTATION_DOMAINS", DEFAULT_ANNOTATION_DOMAINS),
        host_aliases=_list(environment, "PODTUNE_ALLOWED_HOST_ALIASES"),
        images=_list(environment, "PODTUNE_ALLOWED_IMAGES", ("*",)),
        denied_secrets=_list(environment, "PODTUNE_DENIED_SECRETS"),
        denied_claims=_list(environment, "PODTUNE_DENIED_CLAIMS"),
        results_host=urlsplit(results_url).hostname or "",
    )


def _read_boolean(environment: Mapping[str, str], name: str, default: str = "false") -> bool:
    written = environment.get(name, default)
    if written not in ("true", "false"):
        raise SettingsError(f"{name} is {written!r}; use true or false")
    return written == "true"


def _read_resources(environment: Mapping[str, str], name: str) -> Mapping[str, Any] | None:
    try:
        resources: Mapping[str, Any] | None = json.loads(environment.get(name, "null"))
    except ValueError as error:
        raise SettingsError(f"{name} is no JSON: {error}; write {{}} for none") from error
    try:
        check_resources(resources, name)
    except FieldError as error:
        raise SettingsError(str(error)) from error
    return resources


def _read_pod_limits(environment: Mapping[str, str]) -> PodLimits:
    """A limit for all namespaces, and a list such as `team-a=8,team-b=unlimited` of those that have their own."""
    limits = {}
    for entry in _list(environment, "PODTUNE_NAMESPACE_PODS"):
        namespace, _, limit = entry.partition("=")
        limits[namespace] = _parse_limit(f"PODTUNE_NAMESPACE_PODS, of namespace {namespace!r},", limit)
    written = environment.get("PODTUNE_PODS_PER_NAMESPACE", _UNLIMITED)
    return PodLimits(_parse_limit("PODTUNE_PODS_PER_NAMESPACE", written), limits)


def _parse_limit(name: str, written: str) -> int | None:
    if written == _UNLIMITED:
        return None
    if not written.isdecimal() or int(written) > MAX_PODS:
        raise SettingsError(f"{name} is {written!r}; use a number of pods from 0 to {MAX_PODS}, or {_UNLIMITED}")
    return int(written)


def _read_number(environment: Mapping[str, str], name: str, default: int, most: int, what: str) -> int:
    written = environment.get(name, str(default))
    if not written.isdecimal() or not 0 < int(written) <= most:
        raise SettingsError(f"{name} is {written!r}; use a {what} from 1 to {most}")
    return int(written)
