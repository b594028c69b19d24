"""Means of bits that withstand some false ones: medians of blocks, calibrated, and the partitions behind them."""
