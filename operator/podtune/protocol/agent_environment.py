"""The variables by which the operator tells an agent what it is there for.

The operator gives them to the agent's containers (the sidecar, and the restore container of an attempt that has
something to restore) as a JSON object, the one argument after the command: the list of arguments is one field of a
pod, a variable is three, and every write to a pod, watch event and list pays for its fields. A variable of the
environment counts more than an entry of that object.
"""

from __future__ import annotations

RESULTS_URL = "PODTUNE_RESULTS_URL"
"""Base URL of the operator's results server, such as https://podtune-results.podtune-system.svc:8443."""
RESULTS_AUTHORITIES = "PODTUNE_RESULTS_AUTHORITIES"
"""Certificates, in PEM, of the authorities that the results server's certificate may be of; set where its URL has
https. No others are believed."""
TOKEN_FILE = "PODTUNE_TOKEN_FILE"
"""The projected token; read again for every request, the kubelet renews it."""
NAMESPACE = "PODTUNE_NAMESPACE"
POD_UID = "PODTUNE_POD_UID"
"""The attempt's id, of a pod that is alone; when unset, the token says for which pod it was made."""
ATTEMPT = "PODTUNE_ATTEMPT_ID"
"""The attempt's id where that is not POD_UID: in a gang it is the UID of the pod of rank 0."""
RANK = "PODTUNE_RANK"
"""The pod's rank in a gang; unset where it is alone."""
REPLICAS = "PODTUNE_REPLICAS"
"""How many pods the gang has."""
ALONE = "PODTUNE_RANK_ZERO_STORES"
"""`true` where rank 0 stores the checkpoints of a gang alone."""
EXPERIMENT_UID = "PODTUNE_EXPERIMENT_UID"
OBJECTIVE_METRIC = "PODTUNE_OBJECTIVE_METRIC"
STORE = "PODTUNE_STORE"
"""JSON object of the store's address; unset where there is no store.

Of an S3 bucket: `bucket` and, where they are not the default, `prefix`, `endpoint`, `region`, `addressing`, `ca_file`,
`kms_key`, `wire_checksums` and `credentials`. Others have a `kind`, and where it is set, a `prefix`. "gcs" has
`bucket`, and "azure" has `account` and `container`, both with `endpoint`, `ca_file` and `credentials` as above.
"volume" has `claim`, "plugin" has `name`, `settings` as JSON and `credentials`, and "file", which the operator never
sets, has `directory`."""
STORE_DIRECTORY = "/podtune-store"
"""Where a store's volume is mounted."""
SYNC = "PODTUNE_SYNC"
"""JSON object of how checkpoints, artifacts, results and logs are stored, where that is not the default: `layout`,
`reuseUnchanged`, `exclude`, `timeout` in seconds, `retries`, `artifacts` with `include`, `exclude`, `period` in seconds
and `onCheckpoint`, `results` and `logs` in bytes that are kept of an attempt's, and for tests `segmentPeriod` in
seconds."""
STATE = "PODTUNE_STATE"
"""Directory of a volume that the agent has for itself, for what it needs when it is started again; unset in a pod that
is not reused."""
STATE_DIRECTORY = "/var/run/podtune/agent"
SCRATCH = "PODTUNE_SCRATCH"
"""Directory of the volume that the trial keeps over its attempts; unset where it has none."""
SCRATCH_DIRECTORY = "/podtune-scratch"
STORED_FUNCTION = "PODTUNE_FUNCTION"
"""Directory with the function that the program runs, for the snapshot. Its last part is the name of the ConfigMap that
the function travels in. Unset where there is none, or no snapshot is kept."""
FUNCTION_DIRECTORY = "/podtune-function"
"""Where the function's files are for the program; for the agent they are one folder deeper."""
RESTORE_FROM = "PODTUNE_RESTORE_FROM"
"""JSON list of `CheckpointRef`s, the one to try first at the front."""
RESTORE_OR_FAIL = "PODTUNE_RESTORE_OR_FAIL"
"""`true` if the attempt must not start from scratch: it has another trial's checkpoint to continue from, and the
parameters that belong to it."""
FIND_CHECKPOINTS = "PODTUNE_FIND_CHECKPOINTS"
"""`true` where the attempt looks below the trial's prefix in the bucket for checkpoints of its configuration; those
that it finds are tried before those of RESTORE_FROM."""
CONFIGURATION = "PODTUNE_CONFIGURATION"
"""Digest of what the attempt trains with; manifests of checkpoints hold it. Unset where there is no store."""
STDOUT_PATTERN = "PODTUNE_STDOUT_PATTERN"
"""Regular expression with named groups; unset where results are not read off standard output."""
STDOUT_LAST = "PODTUNE_STDOUT_LAST"
"""Name of the metric that is printed last of each result, where the lines name their metrics; unset: not known."""
TRACKER = "PODTUNE_TRACKER"
"""JSON object of a tracking server of MLflow that the trial's results go to as well: `uri`, `experiment`, and where
they are set, `credentials` and `ca_file` (a directory and a file) and `dashboard`. Unset where there is none."""
EVENT_FILE_TABLES = "PODTUNE_TENSORBOARD"
"""JSON object of what TensorBoard's HParams tab shows, where the trial's results are stored as event files, too:
`metrics`, `parameters` with `name` and, where they are known, `choices` or `interval`, and `dashboard` where one is
set. Unset: they aren't."""
TRIAL_UID = "PODTUNE_TRIAL_UID"
"""UID of the Trial, by which its run is found; set with TRACKER."""
SOURCES = "PODTUNE_SOURCES"
"""Whose requests the agent answers at an endpoint of its own, with commas between them; unset: it has none."""
HUGGING_FACE = "huggingFace"
"""The trainer of transformers, or another that posts its status as in a TrainJob of Kubeflow."""
MLFLOW = "mlflow"
"""A program that logs to a tracking server of MLflow."""
SOURCE_NAMES = (HUGGING_FACE, MLFLOW)
ENDPOINT_PORT = 24680
"""Where that endpoint is in a pod, on 127.0.0.1; below the ports that connections get by themselves."""
TRAINER_STATUS_ROUTE = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{namespace}/trainjobs/{trial}/status"
"""The route of that status; namespace and name stand for the trial's."""
SCRAPE = "PODTUNE_SCRAPE"
"""JSON object of where the program serves metrics in Prometheus's text format: `port`, `path`, `period` in seconds, and
`timeAttribute` where one is set; unset: none are scraped."""
EVENT_FILES = "PODTUNE_EVENT_FILES"
"""The directory below which the program writes event files of TensorBoard: a path in the shared directory, with `*` for
any directory; unset: none are read."""
WANDB_FILES = "PODTUNE_WANDB_FILES"
"""The directory in which the program's client of Weights & Biases writes the files of its runs: a path in the shared
directory, with `*` for any directory; unset: none are read."""
COPY_MODULE = "copy-module"
"""Command of the agent that makes the copy of `podtune.trial` in a directory, which is its argument; a hook runs it."""
DRAIN_SECONDS = "PODTUNE_DRAIN_SECONDS"
"""How long the agent may take, after the program has ended, to store and deliver what is left; 20 when unset. Keep it
below the pod's termination grace period."""
TERMINATION_LOG = "PODTUNE_TERMINATION_LOG"
"""Where the final commit goes; /dev/termination-log when unset."""
STORE_KEY_ID = "PODTUNE_STORE_KEY_ID"
"""The public half of the credentials. No agent reads it: it keeps the container from being started before the Secret is
there, and has the kubelet say so in the pod's status. Of a volume whose Secret is missing it would say so in an Event
alone, and an agent could tell only once the program has begun."""
STORAGE_JOB = "PODTUNE_STORAGE_JOB"
"""JSON of a `StorageTask`: what a storage pod is to do. It has no other variables than this, STORE and
TERMINATION_LOG."""
STORAGE_DIRECTORY = "/var/run/podtune/trials"
"""Where a storage pod finds what it has to know of the trials: `<number>.gz`, from 0."""
