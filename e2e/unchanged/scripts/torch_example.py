"""Prints what PyTorch's MNIST example prints, where there is no PyTorch."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.7)
args = parser.parse_args()

rate, loss = 1.0, 2.3
for epoch in range(1, 4):
    for batch in range(0, 60000, 30000):
        print(f"Train Epoch: {epoch} [{batch}/60000 ({100 * batch / 60000:.0f}%)]\tLoss: {loss:.6f}")
    loss, rate = loss * (1 - 0.5 * rate), rate * args.gamma
    correct = round(10000 * (1 - loss / 4))
    print(f"\nTest set: Average loss: {loss:.4f}, Accuracy: {correct}/10000 ({correct / 100:.0f}%)\n")
