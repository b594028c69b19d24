"""Many queries to one search engine: each list is the engine's order, changed where clicks justify it."""
