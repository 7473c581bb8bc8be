"""Trackers that run beside the cluster, where its pods reach them."""
