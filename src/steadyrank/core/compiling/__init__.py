"""How this package compiles: decorators, a cache on disk, and what numba lacks."""
