"""Public checks of the contract: call them on a class of your own, as this project's tests do on all of its own.

Each raises an `AssertionError` that names the rule (docs/contract.md) and what was seen.
"""

from .adversaries import check_adversary
from .guards import check_guard
from .learners import check_learner
from .users import check_users

__all__ = ["check_adversary", "check_guard", "check_learner", "check_users"]
