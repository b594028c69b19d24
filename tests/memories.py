"""Memories that are told apart."""

from steadyrank.live import snapshots


def digest_of(fold):
    """Sixteen digits that differ where items or anything learnt differ."""
    return snapshots.digest({"items": fold.names}, fold.arrays())
