"""Tests of Podtune against a real Kubernetes, and the local cluster they run on."""
