"""SteadyRank, SteadyRankLinear and SteadyRankSegments, with what they alone are made of."""
