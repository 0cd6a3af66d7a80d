"""`python -m minigpt ...` is the same as `minigpt ...`."""

import sys

from minigpt.cli import main

sys.exit(main())
