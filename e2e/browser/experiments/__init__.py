"""Experiments that look like those of people, the same on each machine: what the pages show in tests and pictures."""
