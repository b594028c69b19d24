"""One process that serves boards: gives out lists, writes what happens to the log, applies the log in order."""
