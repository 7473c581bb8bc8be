"""The files and variables by which a training program and the agent beside it talk.

Both run in one pod and share a volume, mounted at `/podtune` in every container. A program in any language can
use it: read `parameters.json`, append lines of JSON to `results.jsonl`. All that Python programs need is wrapped in
`podtune.trial`.
"""

from __future__ import annotations

DIRECTORY = "/podtune"
PARAMETERS = "parameters.json"
"""A JSON object, values by parameter name, in their own types. Written before the program starts."""
RESULTS = "results.jsonl"
"""One JSON object a line, appended by the program; values are numbers, strings or booleans."""
CHECKPOINTS = "checkpoints"
"""A directory of the program's; each checkpoint is a directory below it, named by a result's `CHECKPOINT_KEY`."""
CHECKPOINT_KEY = "_checkpoint"
"""In a result: name of the directory below `CHECKPOINTS` that holds the checkpoint taken with it. The program must
have finished writing it, and not touch it afterwards; the agent deletes it once it is stored, which it can where its
directories are writable for everyone (mode 0777; the agent is another user)."""
DONE_KEY = "_done"
"""In a line of `RESULTS`, alone or with a result: true says that the program has done all that it set out to do."""
END_KEY = "_end"
"""In the last line of `RESULTS`, where the program goes on to another trial: true says so."""
READ_FROM_KEY = "_readFrom"
"""In a line of `RESULTS` that the agent has written: where it has read the result, `file` and `position` in it."""
RESERVED_KEYS = frozenset({CHECKPOINT_KEY, DONE_KEY, END_KEY, READ_FROM_KEY})
RESTORED = "restored"
"""The restored checkpoint's directory; there only when something was restored, and before the program starts."""
RESTORE_INFO = "restore.json"
"""`{"step": 9, "uri": "s3://…", "iteration": 9, "time_total_s": 81.5, "message": ""}`: what was restored; written last,
so RESTORED is complete. With `step` 0 and an empty `uri` the program starts from scratch, and `message` says why."""
CONTROL = "control.json"
"""`{"shouldCheckpoint": false, "shouldStop": false}`: replaced whole by the agent whenever it changes."""

ENDPOINT_TOKEN = "endpoint-token"
"""What programs have to send to the agent's endpoint, where there is one; written when that answers."""

SITE_PACKAGES = "site-packages"
"""A directory for PYTHONPATH, with a copy of `podtune.trial`; there where the template names it."""

ASSIGNMENT = "assignment.json"
"""What a pod that is reused has to do after its first trial: replaced whole by the agent. `directory` is that of the
trial, below the shared one, with files as above; beside it `trial`, `number` (of the attempt), `parameters`, `seed`,
`display_name`."""
TRIALS = "trials"
"""Holds the directories of the trials after the first."""

ITERATION = "training_iteration"
"""Result key that the agent fills in where the program has not: results so far, over all attempts."""
TIME_THIS_ITER = "time_this_iter_s"
"""Another: seconds since the result before, or since the program began."""
TIME_TOTAL = "time_total_s"
"""Another: seconds of training so far, over all attempts."""
TIMES = frozenset({TIME_THIS_ITER, TIME_TOTAL})
FILLED_IN = frozenset({ITERATION, *TIMES})
"""All that the agent fills in."""

ENV_DIRECTORY = "PODTUNE_DIR"
ENV_TRIAL = "PODTUNE_TRIAL"
ENV_DISPLAY_NAME = "PODTUNE_DISPLAY_NAME"
ENV_EXPERIMENT = "PODTUNE_EXPERIMENT"
ENV_ATTEMPT = "PODTUNE_ATTEMPT"
ENV_INDEX = "PODTUNE_TRIAL_INDEX"
ENV_RANK = "PODTUNE_RANK"
ENV_REPLICAS = "PODTUNE_REPLICAS"
ENV_ROLE = "PODTUNE_ROLE"
"""In a gang with roles: the pod's."""
ENV_ROLE_INDEX = "PODTUNE_ROLE_INDEX"
"""The pod's number among those of its role, from 0."""
ENV_ROLE_REPLICAS = "PODTUNE_ROLE_REPLICAS"
"""How many pods have its role."""
ENV_ROLES = "PODTUNE_ROLES"
"""Numbers of pods by role, in the order of their ranks, as JSON."""
ENV_SEED = "PODTUNE_SEED"
ENV_ENDPOINT = "PODTUNE_ENDPOINT"
"""Address of the agent's endpoint, such as http://127.0.0.1:24680; unset where there is none."""
ENV_REUSE = "PODTUNE_REUSE"
"""`true` in a pod that is given one trial after the other."""
ENV_PARAMETER_PREFIX = "PODTUNE_PARAM_"
