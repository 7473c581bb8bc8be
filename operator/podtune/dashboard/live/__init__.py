"""A source that has news while it is shown, and how pages hear of them."""
