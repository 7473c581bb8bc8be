"""Where the checks' checkpoints go: the store that was given, else the S3 server that the chart has installed."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import typer

from podtune.api.names import GROUP
from podtune.cli.client.api_client import Api
from podtune.cli.commands.conformance.checks import CheckStore
from podtune.cli.commands.conformance.program import CheckImage
from podtune.cli.errors import CliError, explain_error
from podtune.cli.output import print_note
from podtune.kube import paths
from podtune.kube.errors import ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.storage.address import S3Address
from podtune.storage.errors import StoreSettingsError

CHECKS_SECRET = "conformance-store"
"""Name of the Secret in the checks' namespace: a copy, which goes with that."""
_PREFIX = "podtune-conformance"
_EMBEDDED = {"labelSelector": "app.kubernetes.io/part-of=podtune,app.kubernetes.io/component=s3"}
_BUCKET, _KEYS = f"{GROUP}/bucket", f"{GROUP}/credentials-secret"
"""Annotations by which the chart says which bucket its S3 server has, and who may use it."""
_GIVE = "give one: --store s3://BUCKET/PREFIX --secret NAME, and --endpoint if it is not AWS"
_HTTP_PORT = 80


@dataclass(frozen=True, slots=True)
class StoreChoice:
    """The store that the command line names.

    Attributes:
        uri: Such as `s3://models/team`; empty for none.
        endpoint: URL of its server, as pods reach it; empty for AWS.
        region: Region of the bucket; empty for the default.
        secret: Name of the Secret with its keys; empty for none.
        namespace: Where that Secret is.
    """

    uri: str = ""
    endpoint: str = ""
    region: str = ""
    secret: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class FoundStore:
    """A store, or why there is none.

    Attributes:
        store: The store; None where there is none.
        keys: The data of the Secret that it needs; empty where it needs none.
        lack: Why there is none, and the remedy.
    """

    store: CheckStore | None = None
    keys: Mapping[str, Any] | None = None
    lack: str = ""


def find_store(api: Api, home: str, choice: StoreChoice) -> FoundStore:
    """Finds the store for the checks.

    Args:
        api: The cluster.
        home: The operator's namespace, where the chart's own S3 server would be.
        choice: What the command line names.

    Raises:
        typer.BadParameter: What it names is no bucket.
        CliError: The Secret that it names can't be read.
    """
    if not choice.uri:
        return _find_embedded(api, home)
    try:
        address, key = S3Address("").find_sibling(f"{choice.uri.rstrip('/')}/{_PREFIX}")
    except StoreSettingsError as error:
        raise typer.BadParameter(f"--store: {error}; write it like s3://bucket/prefix") from error
    spec: Manifest = {"bucket": address.bucket, "prefix": key}
    spec |= {name: value for name, value in (("endpoint", choice.endpoint), ("region", choice.region)) if value}
    if not choice.secret:
        return FoundStore(_make_store(spec))
    try:
        keys = api.get(paths.secret(choice.namespace, choice.secret)).get("data") or {}
    except ApiRefusal as refusal:
        raise CliError(
            f"--secret: {choice.secret} in namespace {choice.namespace} can't be read: {explain_error(refusal)}; name "
            "one that you may read, as NAMESPACE/NAME if it is elsewhere"
        ) from refusal
    return FoundStore(_make_store({**spec, "credentialsSecret": CHECKS_SECRET}), keys)


def _find_embedded(api: Api, home: str) -> FoundStore:
    """The S3 server that the chart installs if asked to."""
    try:
        services = api.list_all(paths.services(home), _EMBEDDED)
        found = next((one for one in services if _BUCKET in (one["metadata"].get("annotations") or {})), None)
        if found is None:
            return FoundStore(lack=f"there is no store: namespace {home} has no S3 server of the chart's; {_GIVE}")
        metadata = found["metadata"]
        keys = api.get(paths.secret(home, metadata["annotations"][_KEYS])).get("data") or {}
    except ResourceNotFound as error:
        return FoundStore(lack=f"the S3 server of the chart has no Secret ({error.message}); create it, or {_GIVE}")
    except ApiRefusal as refusal:
        return FoundStore(lack=f"you may not read the keys of the chart's S3 server ({refusal.message}); {_GIVE}")
    port = found["spec"]["ports"][0]["port"]
    spec = {
        "bucket": metadata["annotations"][_BUCKET],
        "prefix": _PREFIX,
        "endpoint": f"http://{metadata['name']}.{home}.svc:{port}",
        "credentialsSecret": CHECKS_SECRET,
    }
    return FoundStore(_make_store(spec), keys)


def _make_store(spec: Manifest) -> CheckStore:
    url = urllib.parse.urlsplit(spec.get("endpoint") or "")
    server = (url.hostname, url.port or _HTTP_PORT) if url.scheme == "http" and url.hostname else None
    return CheckStore(spec, server)


def copy_secrets(api: Api, namespace: str, found: FoundStore, image: CheckImage, home: str) -> None:
    """Copies into the checks' namespace what its pods need: the store's keys, and what images are pulled with.

    Raises:
        ApiError: One can't be written.
    """
    if found.keys is not None:
        _make_secret(api, namespace, CHECKS_SECRET, {"data": found.keys})
    for name in image.pull_secrets:
        try:
            there = api.get(paths.secret(home, name))
        except ApiRefusal as refusal:
            print_note(
                f"Secret {name} is not copied from {home} ({explain_error(refusal)}); nodes need the agent's image"
            )
            continue
        _make_secret(api, namespace, name, {"type": there.get("type", "Opaque"), "data": there.get("data") or {}})


def _make_secret(api: Api, namespace: str, name: str, content: Mapping[str, Any]) -> None:
    """Makes a Secret, in the place of one that an earlier run has left."""
    path = paths.secret(namespace, name)
    with suppress(ResourceNotFound):
        api.delete(path, api.get(path)["metadata"]["uid"])
    api.create(paths.secrets(namespace), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **content})
