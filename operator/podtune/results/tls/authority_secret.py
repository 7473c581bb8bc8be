"""Keeps the authorities in one Secret of the operator's own namespace, which the chart makes without content."""

from __future__ import annotations

import base64
import binascii

from podtune.api.names import FIELD_MANAGER
from podtune.cluster.client import ClusterClient
from podtune.kube import paths
from podtune.kube.errors import ApiError, ApiRefusal, ResourceNotFound
from podtune.kube.manifests import Manifest
from podtune.results.tls.authorities import Authorities, Authority, UnusableAuthority, read_authority

TRUSTED = "ca.crt"
"""The certificates of both, for who scrapes the metrics."""
_SIGNING, _FOLLOWING = "signing", "following"


class AuthoritySecret:
    """The Secret."""

    def __init__(self, client: ClusterClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._body: Manifest = {}

    def __str__(self) -> str:
        return f"Secret {self._name} of namespace {self._namespace}"

    async def load(self) -> Authorities | None:
        """Reads what is kept; None where nothing is yet.

        Raises:
            UnusableAuthority: Something else is kept there.
            ApiError: The API server could not be asked, or there is no such Secret.
        """
        try:
            self._body = await self._client.request("GET", paths.secret(self._namespace, self._name))
        except ResourceNotFound as refusal:
            raise ApiError(f"there is no {self}, which the chart makes: run helm upgrade") from refusal
        except ApiRefusal as refusal:
            if not refusal.is_lack_of_rights:
                raise
            words = f"the operator may not read {self}: run helm upgrade, which brings the Role along"
            raise ApiError(words) from refusal
        data = self._body.get("data") or {}
        if not data:
            return None
        return Authorities(_read(data, _SIGNING), _read(data, _FOLLOWING))

    async def save(self, authorities: Authorities) -> None:
        """Keeps them in the place of what was read last.

        Raises:
            ResourceConflict: Something else is kept by now.
            ApiError: It could not be kept.
        """
        texts = {TRUSTED: authorities.trusted}
        for name, authority in ((_SIGNING, authorities.signing), (_FOLLOWING, authorities.following)):
            texts |= {f"{name}.crt": authority.certificate, f"{name}.key": authority.key}
        data = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        # Whole, so that its labels and annotations, which are Helm's, stay.
        body = {"apiVersion": "v1", "kind": "Secret", **self._body, "data": data}
        path, params = paths.secret(self._namespace, self._name), {"fieldManager": FIELD_MANAGER}
        self._body = await self._client.request("PUT", path, params=params, body=body)


def _read(data: Manifest, name: str) -> Authority:
    try:
        certificate, key = (base64.b64decode(data[f"{name}.{part}"], validate=True).decode() for part in ("crt", "key"))
    except (LookupError, TypeError, UnicodeDecodeError, binascii.Error) as error:
        raise UnusableAuthority(f"{name}.crt or {name}.key is missing, or no text") from error
    try:
        return read_authority(certificate, key)
    except UnusableAuthority as error:
        raise UnusableAuthority(f"{name}.crt and {name}.key: {error}") from error
