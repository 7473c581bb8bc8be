"""Trains a small network to tell two spirals apart, and goes on from its checkpoint if it was interrupted."""

import math
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from podtune import trial

EPOCHS = 27
device = "cuda" if torch.cuda.is_available() else "cpu"


def draw_spirals(count, seed):
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=draws)
    turns = torch.rand(count, generator=draws)
    angles = 5 * math.pi * turns + math.pi * labels
    points = torch.stack([turns * angles.cos(), turns * angles.sin()], dim=1)
    return TensorDataset(points + 0.02 * torch.randn(count, 2, generator=draws), labels)


params = trial.params({"lr": 0.003, "width": 32, "activation": "tanh"})
torch.manual_seed(trial.seed())
shuffle = torch.Generator()
batches = DataLoader(draw_spirals(8000, seed=1), batch_size=64, shuffle=True, generator=shuffle)
held_out = DataLoader(draw_spirals(2000, seed=2), batch_size=2000)

width = params["width"]
activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[params["activation"]]
model = nn.Sequential(nn.Linear(2, width), activation(), nn.Linear(width, width), activation(), nn.Linear(width, 2))
model.to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
loss_function = nn.CrossEntropyLoss()

epoch = 0
restored = trial.restored_checkpoint()
if restored:
    state = torch.load(restored / "state.pt", map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    epoch = state["epoch"]

while epoch < EPOCHS and not trial.should_stop():
    epoch += 1
    shuffle.manual_seed(epoch)  # a retry sees the batches that it would have seen
    model.train()
    for points, labels in batches:
        optimizer.zero_grad()
        loss = loss_function(model(points.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()

    model.eval()
    with torch.no_grad():
        right = sum((model(points.to(device)).argmax(1) == labels.to(device)).sum() for points, labels in held_out)
    accuracy = right.item() / len(held_out.dataset)

    with tempfile.TemporaryDirectory() as directory:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, Path(directory) / "state.pt")
        trial.report({"epoch": epoch, "accuracy": accuracy, "loss": loss.item()}, checkpoint=directory)
