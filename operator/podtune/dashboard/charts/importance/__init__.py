"""Which parameters matter: by objective, by time, and as the search went on."""
