"""SteadyRank, SteadyRankLinear and SteadyRankSegments, and the parts used only by them."""
