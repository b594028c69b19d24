"""One file per learner; `ALL` finds them."""

import sys

from ..core.discovery import discover

ALL = discover(sys.modules[__name__], "rank")
