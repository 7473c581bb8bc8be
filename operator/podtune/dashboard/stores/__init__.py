"""What pages read from stores on request: all results of a trial, and the manifests of its checkpoints."""
