"""Compare two rankers: off-policy estimates, interleaved lists, confidence intervals; and tests of counts."""
