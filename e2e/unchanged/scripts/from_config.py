"""Trains as its configuration file says."""

import configparser
import sys

config = configparser.ConfigParser()
config.read(sys.argv[1])
training = config["training"]
momentum, rate = float(training["momentum"]), float(training["learning_rate"])
velocity = weight = 0.0
for epoch in range(1, int(training["epochs"]) + 1):
    velocity = momentum * velocity - rate * (weight - 1)
    weight += velocity
    print("epoch", epoch, "rmse", abs(weight - 1))
