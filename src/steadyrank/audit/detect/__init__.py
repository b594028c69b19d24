"""Find suspect intervals of a log, items that gained or lost in them, and clients that stand out."""
