"""A training program without the library: as the first process of its container, it ignores SIGTERM."""

import json
import os
import time
from pathlib import Path

with (Path(os.environ["PODTUNE_DIR"]) / "results.jsonl").open("a") as results:
    for epoch in range(1, 3000):
        results.write(json.dumps({"epoch": epoch, "value": epoch / 3000}) + "\n")
        results.flush()
        time.sleep(0.2)
