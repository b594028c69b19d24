"""One file per click model; `ALL` finds them."""

import sys

from ..core.discovery import discover

ALL = discover(sys.modules[__name__], "click")
