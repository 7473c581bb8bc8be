"""The certificates of the results server: who signs them, how they are renewed, and whom agents trust."""
