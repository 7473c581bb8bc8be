"""What was known of a search at any moment."""
