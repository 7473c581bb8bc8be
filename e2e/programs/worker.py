"""A worker of a gang with roles: it does the epochs that the driver hands out.

What can be chosen:
    WORK    what it returns for an epoch
"""

import json
import os
import signal
import socket
import sys
import time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
assert os.environ["PODTUNE_ROLE"] == "worker"
while True:
    try:
        driver = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), timeout=120)
        break
    except OSError as error:
        print(f"the driver is not there yet: {error}", flush=True)
        time.sleep(0.3)
channel = driver.makefile("rw")
epoch = 0
while epoch >= 0:
    line = channel.readline()
    if not line:
        sys.exit("the driver has gone")
    epoch = json.loads(line)["epoch"]
    print(f"epoch {epoch}", flush=True)
    channel.write(json.dumps({"index": int(os.environ["PODTUNE_ROLE_INDEX"]), "work": int(os.environ["WORK"])}) + "\n")
    channel.flush()
