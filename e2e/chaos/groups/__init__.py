"""All perturbations, in groups that run one after the other."""
