"""`podtune detect`: runs a script for a moment, and finds which ways of reading results work with it."""
