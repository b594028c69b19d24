"""How much memory a board may take, which the command line says before anything heavy is imported."""

MOST_BYTES = 2 << 30  # unless more are allowed
