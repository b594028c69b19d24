"""One file per guard; `ALL` finds them."""

import sys

from ..core.discovery import discover

ALL = discover(sys.modules[__name__], "admit")
