"""Faults, injected one by one between the operator and all that it talks to, and what must hold whatever they are."""
