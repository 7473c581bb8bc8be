"""The client of one cluster."""

from __future__ import annotations

import os
from pathlib import Path

from podtune.cli.client import api_client
from podtune.cli.client.resources import NO_DEFINITIONS, fetch_experiment
from podtune.cli.client.store_access import StoreOptions
from podtune.client.errors import AlreadyExists, InvalidArgument, ObjectNotFound
from podtune.client.experiment import Experiment
from podtune.client.packing.creation import create_objects
from podtune.client.session import ClusterSession, check_name
from podtune.kube import paths


class Client:
    """Creates and finds Experiments in a cluster.

    It finds its way as kubectl does: by a kubeconfig, or in a pod by its service account. It may be shared by threads,
    and it holds nothing that has to be closed.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | os.PathLike[str] | None = None,
        context: str | None = None,
        namespace: str | None = None,
        store: StoreOptions | None = None,
    ) -> None:
        """Finds the way to the cluster.

        Args:
            kubeconfig: Path of the kubeconfig; else $KUBECONFIG or ~/.kube/config, or in a pod the service account.
            context: Its context; else the current one.
            namespace: Where Experiments are that no namespace is named for; else the context's.
            store: How stores of checkpoints and results are reached, where that differs from what Experiments say.

        Raises:
            ConnectionFailed: No way to a cluster is known.
        """
        file = Path(kubeconfig) if kubeconfig is not None else None
        self._session = ClusterSession(lambda: api_client.open_api(file, context, namespace), store or StoreOptions())

    @property
    def namespace(self) -> str:
        """Where Experiments are that no namespace is named for."""
        return self._session.namespace

    def create(self, experiment: Experiment) -> Experiment:
        """Creates an Experiment in the cluster; returns it, in the cluster from now on.

        Before it, the ConfigMap is created that its function travels in, if it has one; it is deleted with it.

        Raises:
            AlreadyExists: There is one of that name.
            InvalidArgument: It is no Experiment, or in a cluster already.
            PodtuneError: The API server refuses it, or does not answer.
        """
        if not isinstance(experiment, Experiment):
            raise InvalidArgument(f"experiment: {experiment!r:.64} is no Experiment; Experiment.from_dict makes one")
        if experiment.is_created:
            raise InvalidArgument(
                f"experiment: {experiment.name} is in a cluster already; Experiment.from_yaml(experiment.to_yaml()) "
                "makes one that is not"
            )
        manifest = experiment.manifest
        namespace = manifest["metadata"].setdefault("namespace", self.namespace)
        try:
            made = create_objects(self._session, namespace, manifest, experiment.config_map)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"metadata.name: there is an experiment {experiment.name!r} in namespace {namespace!r} already; get it "
                "by client.get(name), or choose another name"
            ) from error
        except ObjectNotFound as error:
            raise ObjectNotFound(
                f"namespace {namespace!r} or the definition of Experiments is missing: {error}"
            ) from error
        return experiment._attach(self._session, made)

    def get(self, name: str, *, namespace: str | None = None) -> Experiment:
        """Finds an Experiment.

        Args:
            name: Its name.
            namespace: Its namespace; else the client's.

        Raises:
            ObjectNotFound: There is none.
            PodtuneError: The API server refuses, or does not answer.
        """
        wanted, chosen = check_name("name", name), self._choose_namespace(namespace)
        item = self._session.call(lambda api: fetch_experiment(api, chosen, wanted))
        return Experiment(item, self._session)

    def list(self, *, namespace: str | None = None, all_namespaces: bool = False) -> tuple[Experiment, ...]:
        """Lists the Experiments of a namespace, by name.

        Args:
            namespace: The namespace; else the client's.
            all_namespaces: Whether those of all namespaces are listed.

        Raises:
            InvalidArgument: Both a namespace and all of them are asked for.
            PodtuneError: The API server refuses, or does not answer.
        """
        if all_namespaces and namespace is not None:
            raise InvalidArgument(f"namespace: {namespace!r} is one, and all were asked for; leave out one of the two")
        path = paths.experiments("" if all_namespaces else self._choose_namespace(namespace))
        try:
            items = self._session.call(lambda api: api.list_all(path))
        except ObjectNotFound as error:
            raise ObjectNotFound(NO_DEFINITIONS) from error
        found = (Experiment(item, self._session) for item in items)
        return tuple(sorted(found, key=lambda experiment: (experiment.namespace, experiment.name)))

    def __repr__(self) -> str:
        return f"<Client namespace={self.namespace!r}>"

    def _choose_namespace(self, namespace: str | None) -> str:
        return self.namespace if namespace is None else check_name("namespace", namespace)
