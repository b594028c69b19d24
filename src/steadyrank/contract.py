"""Types of the arguments of your own learners, users, adversaries and guards."""

from .core.contract import ANYONE, NOTE_EXTRA, Problem, Visit

__all__ = ["ANYONE", "NOTE_EXTRA", "Problem", "Visit"]
