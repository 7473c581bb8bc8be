"""What became of a population: who continued from whose checkpoint, and with which parameters."""
