"""Run the demonstration: `python -m privsample.simulations.demo FOLDER`."""

import sys

from privsample.simulations.demo.run import main

sys.exit(main())
