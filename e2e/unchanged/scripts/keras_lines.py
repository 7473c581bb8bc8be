"""Prints what model.fit(…, validation_data=…) of Keras prints to a file, where there is no Keras."""

import os

units = int(os.environ["UNITS"])
bar = "━" * 20
for epoch in range(1, 4):
    error = 1 / (epoch + 1) + 8 / units
    train = f"accuracy: {1 - 0.4 * error:.4f} - loss: {error:.4f}"
    print(f"Epoch {epoch}/3")
    print(f"  1/375 {bar} 56s 152ms/step - accuracy: 0.1094 - loss: 2.3507")
    print(f"375/375 {bar} 1s 1ms/step - {train}")
    print(f"375/375 {bar} 1s 2ms/step - {train} - val_accuracy: {1 - error / 2:.4f} - val_loss: {1.2 * error:.4f}")
