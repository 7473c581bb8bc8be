"""Trains as its configuration file says."""

import configparser
import sys

config = configparser.ConfigParser()
config.read(sys.argv[1])
training = config["training"]
momentum, velocity, weight = training.getfloat("momentum"), 0.0, 0.0
for epoch in range(1, training.getint("epochs") + 1):
    velocity = momentum * velocity - training.getfloat("learning_rate") * (weight - 1)
    weight += velocity
    print("epoch", epoch, "rmse", abs(weight - 1))
