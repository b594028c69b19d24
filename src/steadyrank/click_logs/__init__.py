"""Turn click logs into impressions: read files in blocks, interpret columns, number items, split by board."""
