"""Compiled functions for your own learners, users, adversaries and guards."""

from .core.kernels import count_bits, top_allowed, uncount_bits

__all__ = ["count_bits", "top_allowed", "uncount_bits"]
