"""Impressions into findings: where clicks behave otherwise, which items gained or lost, which clients stand out."""
