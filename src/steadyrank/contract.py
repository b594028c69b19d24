"""What learners, users, adversaries and guards of your own are told."""

from .core.contract import ANYONE, NOTE_EXTRA, Problem, Visit

__all__ = ["ANYONE", "NOTE_EXTRA", "Problem", "Visit"]
