"""What people's scripts write for TensorBoard; prints what its own reader finds of scalars, also in other files.

Arguments: the directory to log to, and a directory that others have logged to.
"""

import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util
from tensorboardX import SummaryWriter

ours, others = map(Path, sys.argv[1:])

# As Keras and PyTorch's new style: tensors, each with its plugin, by TensorBoard's own writer.
writers = {run: EventFileWriter(str(ours / "keras" / run)) for run in ("train", "validation")}
for step in range(20):
    for run, writer in writers.items():
        summary = scalar_pb("epoch_loss", step / 7 + len(run))
        writer.add_event(Event(wall_time=1.7e9 + step, step=step, summary=summary))
for writer in writers.values():
    writer.close()

# As PyTorch: the older form, beside much else.
with SummaryWriter(str(ours / "torch")) as log:
    log.add_text("notes", "no scalar")
    for step in range(300):
        log.add_scalar("loss/val", 1 / (step + 1), step)
        log.add_scalar("learning rate", 1e-3 * step, step)
        log.add_histogram("weights", list(range(500)), step)
    log.add_scalar("huge", 3.4e38, 1 << 40)
    log.add_scalar("odd", float("nan"), 1)
    log.add_scalars("losses", {"train": 0.1, "val": 0.2}, 5)
    log.add_hparams({"lr": 0.1}, {"accuracy": 0.9}, name="hparams")

found = {}
for root in (ours, others):
    for directory in sorted({path.parent for path in root.rglob("*tfevents*")}):
        events = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
        for tag in events.PluginTagToContent("scalars"):
            values = [
                (event.step, float(tensor_util.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)
            ]
            found["/".join((root.name, *directory.relative_to(root).parts, tag))] = values
print(json.dumps(found))
