"""The dashboard in a real browser: what tests, pictures and measurements of it share."""
