"""Public checks of the contract for your own classes; this project's tests run them on all of its own.

Each raises an `AssertionError` that names the violated rule (docs/contract.md) and what was observed.
"""

from .adversaries import check_adversary
from .guards import check_guard
from .learners import check_learner
from .users import check_users

__all__ = ["check_adversary", "check_guard", "check_learner", "check_users"]
