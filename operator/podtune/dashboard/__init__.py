"""Pages that show experiments: made on the server, of what a source says, and read-only."""
