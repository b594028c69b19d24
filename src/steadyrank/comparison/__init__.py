"""Two rankers compared: off-policy estimates, interleaved lists, intervals."""
