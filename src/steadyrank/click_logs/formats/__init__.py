"""Schemas of other systems, one module each: `fits` detects whether a row has it, `take` reads a row."""
