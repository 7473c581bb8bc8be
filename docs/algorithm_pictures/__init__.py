"""Pictures of how algorithms decide, drawn from simulated experiments by `docs/draw_algorithms.py`."""
