"""What viewers may do: pause, resume, stop and retry, each with their own token."""
