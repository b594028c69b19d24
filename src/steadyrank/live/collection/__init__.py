"""Many queries over one engine: each list is the engine's order, changed as far as clicks say so."""
