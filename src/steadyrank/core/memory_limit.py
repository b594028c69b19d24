"""The memory limit of a board, importable by the command line without heavy modules."""

MOST_BYTES = 2 << 30  # unless a higher limit is set
