"""Compiled functions that learners, users, adversaries and guards of your own may call."""

from .core.kernels import count_bits, top_allowed, uncount_bits

__all__ = ["count_bits", "top_allowed", "uncount_bits"]
