"""`python -m privsample` is the command `privsample`."""

import sys

from privsample.cli import main

if __name__ == "__main__":
    sys.exit(main())
