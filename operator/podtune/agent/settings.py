"""The agent's settings, read from its argument, its environment and its token."""

from __future__ import annotations

import json
import re
import ssl
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from podtune.agent.scraping.scrape_settings import ScrapeSettings, ScrapeSettingsError
from podtune.agent.sync_settings import SyncSettings, SyncSettingsError
from podtune.agent.trackers.tracker_settings import TrackerSettings, TrackerSettingsError
from podtune.protocol import agent_environment as env
from podtune.protocol.assignment import Assignment, build_attempt_id
from podtune.protocol.checkpoint import CheckpointRef, parse_restore_list
from podtune.protocol.fields import ProtocolError
from podtune.storage.address import parse_store_address
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.directory import Directory
from podtune.storage.errors import StoreError
from podtune.trial import layout

if TYPE_CHECKING:
    from podtune.agent.trackers.event_file_settings import EventFileSettings


class AgentSettingsError(ValueError):
    """A variable is missing or wrong; the text names it, its value and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One attempt, and how to reach all that it needs.

    Attributes:
        directory: The directory shared with the training program.
        state: A directory of the agent's own, that outlives it, but not its pod; None where it needs none.
        results_url: Base URL of the operator's results server.
        results_tls: What is believed of that server's certificate; None with plain HTTP.
        token_file: The projected token.
        namespace: Namespace of the trial.
        experiment: Name of the experiment.
        experiment_uid: Its UID; empty where the operator has not told.
        trial: Name of the trial.
        trial_uid: UID of the Trial; empty where the operator has not told.
        display_name: The trial's name for people; empty where it has none, or where nobody asks.
        attempt: The attempt's id.
        number: Number of the attempt among the trial's.
        objective: Name of the objective's metric.
        store: Where the trial's checkpoints go; None where there is no store.
        sync: How checkpoints and artifacts are stored.
        scratch: Directory of the volume that the trial keeps over its attempts; None where it has none.
        function: Directory of the program's function, called as its ConfigMap; None where there is none to store.
        restore_from: The checkpoints to restore from, the one to try first at the front.
        restore_or_fail: Whether the attempt must fail if nothing can be restored, instead of starting from scratch.
        finds: Whether it looks for checkpoints of its configuration in the bucket first.
        configuration: Digest of what the attempt trains with; empty where the operator has not told.
        stdout_pattern: How results look on standard output; None where they are not read from there.
        stdout_last: The metric that is printed last of each result, where lines name their metrics; empty: not known.
        sources: Whose requests are answered at the endpoint; empty where there is none.
        endpoint_token: What these requests must bear; empty where there is none.
        scrape: Where the program serves metrics; None where they are not scraped.
        event_files: The names of the directories that lead to event files, `*` for any; empty where none are read.
        wandb_files: Likewise, of the client of Weights & Biases.
        tracker: The tracking server that results go to as well; None where there is none.
        event_file_table: What TensorBoard shows of the experiment; None where no event files are stored.
        rank: The pod's rank in its gang; 0 where it is alone.
        replicas: How many pods the gang has.
        stores_alone: Whether rank 0 stores the checkpoints of the gang alone.
        reuse: Whether the pod is given one attempt after the other.
        drain_seconds: How long the end may take.
        termination_log: Where the final commit goes.
    """

    directory: Directory
    state: Path | None
    results_url: str
    results_tls: ssl.SSLContext | None
    token_file: Path
    namespace: str
    experiment: str
    experiment_uid: str
    trial: str
    trial_uid: str
    display_name: str
    attempt: str
    number: int
    objective: str
    store: TrialAddress | None
    sync: SyncSettings
    scratch: Path | None
    function: Path | None
    restore_from: tuple[CheckpointRef, ...]
    restore_or_fail: bool
    finds: bool
    configuration: str
    stdout_pattern: re.Pattern[str] | None
    stdout_last: str
    sources: tuple[str, ...]
    endpoint_token: str
    scrape: ScrapeSettings | None
    event_files: tuple[str, ...]
    wandb_files: tuple[str, ...]
    tracker: TrackerSettings | None
    event_file_table: EventFileSettings | None
    rank: int
    replicas: int
    stores_alone: bool
    reuse: bool
    drain_seconds: float
    termination_log: Path

    @property
    def follows(self) -> bool:
        """Whether results and decisions are the business of another pod, that of rank 0."""
        return self.rank > 0

    @property
    def shares_checkpoints(self) -> bool:
        """Whether each rank stores a shard of every checkpoint."""
        return self.replicas > 1 and not self.stores_alone

    @property
    def restores(self) -> bool:
        """Whether the attempt may begin with a checkpoint."""
        return bool(self.restore_from) or self.finds

    @property
    def checkpoint_store(self) -> TrialAddress | None:
        """Where this agent puts checkpoints; None where it has none to put."""
        return None if self.follows and self.stores_alone else self.store

    @property
    def log_context(self) -> dict[str, str | int]:
        """What each line of the attempt's log says."""
        context: dict[str, str | int] = {
            "namespace": self.namespace,
            "experiment": self.experiment,
            "trial": self.trial,
            "attempt": self.number,
            "attempt_id": self.attempt,
        }
        return {**context, "rank": self.rank} if self.replicas > 1 else context

    def of_next(self, assignment: Assignment, directory: Directory) -> Settings:
        """The settings of another attempt in the same pod, whose files are in a directory of its own."""
        return replace(
            self,
            directory=directory,
            trial=assignment.trial,
            trial_uid=assignment.trial_uid,
            display_name=assignment.display_name,
            attempt=assignment.attempt,
            number=assignment.number,
            store=replace(self.store, trial=assignment.trial) if self.store is not None else None,
            restore_from=assignment.restore_from,
            restore_or_fail=assignment.restore_or_fail,
            finds=assignment.find,
            configuration=assignment.configuration,
        )

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], argument: str = "{}") -> Settings:
        """Reads the variables of `podtune.protocol.agent_environment` and `podtune.trial.layout`.

        Those that the environment does not have are looked up in `argument`, a JSON object.

        Raises:
            AgentSettingsError: One is missing or wrong.
        """
        environ = {**_parse_variables(argument), **environ}
        trial = _read_required(environ, layout.ENV_TRIAL)
        token_file = Path(_read_required(environ, env.TOKEN_FILE))
        attempt = environ.get(env.ATTEMPT) or environ.get(env.POD_UID) or _read_pod_uid(token_file)
        reuse = environ.get(layout.ENV_REUSE) == "true"
        number = _count(environ, layout.ENV_ATTEMPT, default=1)
        if reuse:
            attempt = build_attempt_id(attempt, trial, number)
        sources = _read_sources(environ)
        return cls(
            directory=Directory(Path(environ.get(layout.ENV_DIRECTORY) or layout.DIRECTORY)),
            state=Path(_read_required(environ, env.STATE)) if reuse else None,
            results_url=_read_url(environ, env.RESULTS_URL),
            results_tls=_read_authorities(environ),
            token_file=token_file,
            namespace=_read_required(environ, env.NAMESPACE),
            experiment=_read_required(environ, layout.ENV_EXPERIMENT),
            experiment_uid=environ.get(env.EXPERIMENT_UID, ""),
            trial=trial,
            trial_uid=environ.get(env.TRIAL_UID, ""),
            display_name=environ.get(layout.ENV_DISPLAY_NAME, ""),
            attempt=attempt,
            number=number,
            rank=_count(environ, env.RANK, default=0),
            replicas=_count(environ, env.REPLICAS, default=1),
            stores_alone=environ.get(env.ALONE) == "true",
            reuse=reuse,
            objective=_read_required(environ, env.OBJECTIVE_METRIC),
            store=_store(environ, trial),
            sync=_sync(environ),
            scratch=Path(environ[env.SCRATCH]) if environ.get(env.SCRATCH) else None,
            function=Path(environ[env.STORED_FUNCTION]) if environ.get(env.STORED_FUNCTION) else None,
            restore_from=_restore_from(environ),
            restore_or_fail=environ.get(env.RESTORE_OR_FAIL) == "true",
            finds=environ.get(env.FIND_CHECKPOINTS) == "true",
            configuration=environ.get(env.CONFIGURATION, ""),
            stdout_pattern=_read_pattern(environ),
            stdout_last=environ.get(env.STDOUT_LAST, ""),
            sources=sources,
            # Programs know it without being told, an agent that is started again has the same, and no other pod does.
            endpoint_token=(environ.get(env.POD_UID) or _read_pod_uid(token_file)) if sources else "",
            scrape=_read_scrape(environ),
            event_files=_read_names(environ, env.EVENT_FILES),
            wandb_files=_read_names(environ, env.WANDB_FILES),
            tracker=_read_tracker(environ),
            event_file_table=_read_event_file_table(environ),
            drain_seconds=_read_seconds(environ, env.DRAIN_SECONDS, default=20.0),
            termination_log=Path(environ.get(env.TERMINATION_LOG) or "/dev/termination-log"),
        )


def _parse_variables(argument: str) -> dict[str, str]:
    """The variables that came as one argument."""
    try:
        variables = json.loads(argument)
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise AgentSettingsError(f"the argument is {argument!r}, not a JSON object of strings; the operator sets it")
    return variables


def _read_pod_uid(token_file: Path) -> str:
    """UID of the pod that a token is bound to, by the token's own claims; only who takes the token has to verify it."""
    try:
        claims = token_file.read_text(encoding="ascii").split(".")[1]
        uid = json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["kubernetes.io"]["pod"]["uid"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise AgentSettingsError(
            f"{env.POD_UID} is not set, and the token in {token_file} names no pod ({type(error).__name__}: {error}); "
            "the operator mounts one that is bound to the pod"
        ) from error
    return str(uid)


def _read_required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise AgentSettingsError(f"{name} is not set; the operator sets it in the agent's containers")
    return value


def _read_url(environ: Mapping[str, str], name: str) -> str:
    text = _read_required(environ, name)
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise AgentSettingsError(
            f"{name} is {text!r}; write a URL such as https://podtune-results.podtune-system.svc:8443"
        )
    return text.rstrip("/")


def _read_authorities(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    """Believes the authorities that the operator has named, and not those of the image: each pod has its own."""
    if urlsplit(_read_url(environ, env.RESULTS_URL)).scheme != "https":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    text = _read_required(environ, env.RESULTS_AUTHORITIES)
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise AgentSettingsError(
            f"{env.RESULTS_AUTHORITIES} is {text!r:.100}: {error}; the operator sets it, to certificates in PEM"
        ) from error
    return context


def _store(environ: Mapping[str, str], trial: str) -> TrialAddress | None:
    text = environ.get(env.STORE, "")
    if not text:
        return None
    try:
        return TrialAddress(parse_store_address(text), _read_required(environ, env.EXPERIMENT_UID), trial)
    except StoreError as error:
        raise AgentSettingsError(f"{env.STORE} is {text!r}: {error}") from error


def _restore_from(environ: Mapping[str, str]) -> tuple[CheckpointRef, ...]:
    text = environ.get(env.RESTORE_FROM, "")
    try:
        return parse_restore_list(text)
    except ProtocolError as error:
        raise AgentSettingsError(f"{env.RESTORE_FROM} is {text!r:.200}: {error}; the operator sets it") from error


def _sync(environ: Mapping[str, str]) -> SyncSettings:
    text = environ.get(env.SYNC, "")
    try:
        return SyncSettings.from_json(text)
    except SyncSettingsError as error:
        raise AgentSettingsError(f"{env.SYNC} is {text!r}: {error}; the operator sets it") from error


def _read_pattern(environ: Mapping[str, str]) -> re.Pattern[str] | None:
    text = environ.get(env.STDOUT_PATTERN, "")
    if not text:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise AgentSettingsError(
            f"{env.STDOUT_PATTERN} is {text!r}, which is not a regular expression: {error}"
        ) from error
    if not pattern.groupindex:
        raise AgentSettingsError(f"{env.STDOUT_PATTERN} is {text!r}, which has no named group; name the metrics in it")
    return pattern


def _read_sources(environ: Mapping[str, str]) -> tuple[str, ...]:
    text = environ.get(env.SOURCES, "")
    sources = tuple(filter(None, text.split(",")))
    unknown = [source for source in sources if source not in env.SOURCE_NAMES]
    if unknown:
        raise AgentSettingsError(
            f"{env.SOURCES} is {text!r}, but this agent knows only {', '.join(env.SOURCE_NAMES)}; "
            "use the image of the operator's release"
        )
    return sources


def _read_scrape(environ: Mapping[str, str]) -> ScrapeSettings | None:
    text = environ.get(env.SCRAPE, "")
    try:
        return ScrapeSettings.from_json(text) if text else None
    except ScrapeSettingsError as error:
        raise AgentSettingsError(f"{env.SCRAPE} is {text!r}: {error}; the operator sets it") from error


def _read_names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The parts of a path that leads nowhere else."""
    text = environ.get(name, "")
    names = tuple(text.split("/")) if text else ()
    if any(part in ("", ".", "..") or "\0" in part for part in names):
        raise AgentSettingsError(f"{name} is {text!r}, not a path below the shared directory; the operator sets it")
    return names


def _read_tracker(environ: Mapping[str, str]) -> TrackerSettings | None:
    text = environ.get(env.TRACKER, "")
    try:
        return TrackerSettings.from_json(text)
    except TrackerSettingsError as error:
        raise AgentSettingsError(f"{env.TRACKER} is {text!r}: {error}; the operator sets it") from error


def _read_event_file_table(environ: Mapping[str, str]) -> EventFileSettings | None:
    text = environ.get(env.EVENT_FILE_TABLES, "")
    if not text:
        return None
    from podtune.agent.trackers.event_file_settings import EventFileSettings  # noqa: PLC0415 - few trials need it

    try:
        return EventFileSettings.from_json(text)
    except TrackerSettingsError as error:
        raise AgentSettingsError(f"{env.EVENT_FILE_TABLES} is {text!r}: {error}; the operator sets it") from error


def _count(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise AgentSettingsError(f"{name} is {text!r}, not a whole number; the operator sets it")
    return int(text)


def _read_seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 86400:
        raise AgentSettingsError(f"{name} is {text!r}; write a number of seconds, such as {default:g}")
    return seconds
