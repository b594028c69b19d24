"""Schemas of other systems, one module each: whether a row looks like it, and how a row is taken."""
