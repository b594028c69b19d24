"""Compilation: decorators, a cache on disk, and features that numba lacks."""
