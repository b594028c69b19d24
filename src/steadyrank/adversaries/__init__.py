"""One file per adversary; `ALL` finds them."""

import sys

from ..core.discovery import discover

ALL = discover(sys.modules[__name__], "corrupt")
