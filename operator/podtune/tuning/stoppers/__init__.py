"""Stoppers: when a trial, or the whole experiment, has had enough."""
