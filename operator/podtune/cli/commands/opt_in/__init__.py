"""`podtune enable` and `disable`: which namespaces let the operator in."""
