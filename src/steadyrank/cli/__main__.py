"""`python -m steadyrank.cli`."""

import sys

from . import main

sys.exit(main())
