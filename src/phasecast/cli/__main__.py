"""``python -m phasecast.cli``."""

import sys

from phasecast.cli import main

if __name__ == "__main__":
    sys.exit(main())
