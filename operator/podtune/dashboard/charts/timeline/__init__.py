"""What trials were doing when: told from the times that their statuses hold, and what GPUs were held for."""
