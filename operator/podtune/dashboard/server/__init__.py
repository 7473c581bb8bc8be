"""The dashboard as a server in a cluster: its settings, logs, probes, and how it starts and ends."""
