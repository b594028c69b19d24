"""Click logs into impressions: files are read in blocks, columns understood, items numbered, boards told apart."""
