"""How trials learn: their curves, and what their schedulers decided at rungs."""
