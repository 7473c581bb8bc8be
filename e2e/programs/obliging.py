"""A training program that says nothing of SIGTERM, and reports by the library."""

import time

from podtune import trial

for epoch in range(1, 3000):
    trial.report({"epoch": epoch, "value": epoch / 3000})
    time.sleep(0.2)
