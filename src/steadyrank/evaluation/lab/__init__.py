"""Expand studies into cells, run them, and store the results on disk."""
