"""One transfer by Podtune's own storage layer, in a process as an agent is: nothing else is imported.

python -m e2e.bench.sync.sync_worker up|down DIRECTORY ENDPOINT BUCKET PREFIX Plain|Packed
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

from podtune.protocol.checkpoint import CheckpointRef
from podtune.storage.address import S3Address
from podtune.storage.backoff import ExponentialBackoff
from podtune.storage.checkpoint.address import TrialAddress
from podtune.storage.checkpoint.local_tree import open_tree
from podtune.storage.checkpoint.restore import Restorer
from podtune.storage.checkpoint.syncer import CheckpointInfo, Options, read_stored_digest, upload_checkpoint
from podtune.storage.directory import Directory
from podtune.storage.stores import make_store


def main() -> None:
    """Stores the directory's checkpoint, or restores it; prints what it took without the start of Python."""
    command, directory, endpoint, bucket, prefix, layout = sys.argv[1:]
    started = time.monotonic()
    trial = TrialAddress(S3Address(bucket, prefix, endpoint), "bench", layout.lower())
    address = trial.checkpoint("attempt", "1")
    store = make_store(trial.store)
    target = Path(directory)
    if command == "up":
        with open_tree(Directory(target.parent), (target.name,)) as tree:
            options = Options(packs=layout == "Packed", reuses=False)
            upload_checkpoint(store, tree, address, CheckpointInfo("attempt", 1, 1, ""), options=options)
    else:
        digest = read_stored_digest(store, address) or sys.exit("nothing is stored")
        restorer = Restorer(
            store,
            trial.store,
            backoff=ExponentialBackoff(0.1, 1.0, Random(0)),
            patience=60.0,
            clock=time.monotonic,
            sleep=time.sleep,
        )
        outcome = restorer.restore([CheckpointRef(address.uri, digest, 1)], Directory(target.parent), target.name)
        if outcome.checkpoint is None:
            sys.exit(outcome.message)
    print(json.dumps({"seconds": time.monotonic() - started}))


if __name__ == "__main__":
    main()
