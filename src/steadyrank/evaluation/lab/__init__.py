"""Studies become cells, cells become results on disk."""
