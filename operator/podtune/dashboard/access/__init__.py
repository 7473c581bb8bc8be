"""Who looks at the dashboard, and what they may see: with their own rights, checked by the API server."""
