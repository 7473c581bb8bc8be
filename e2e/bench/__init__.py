"""Figures, each taken beside what it is compared with, in one run on one machine."""
