"""A hyperparameter tuned without privacy tells whether eight records were in the data.

Papernot and Steinke 2022, section 2 and Figure 1: a linear support vector machine in the plane, whose weight of the
hinge loss is chosen by accuracy on the training set, with and without eight outliers. The same as
`privsample reproduce h-1`, with as many data sets as one likes. Run:

    python examples/leak_by_tuning.py FOLDER
"""

import sys
from dataclasses import replace
from pathlib import Path

from privsample.simulations.experiments.leak import FIGURE_1, leak


def main(folder: str = "leak", data_sets: int = 40) -> str:
    """Draw the picture. Returns: what it shows, in one sentence."""
    picture, _, sentence = replace(FIGURE_1, run=lambda: leak(data_sets)).write(Path(folder))
    return f"{sentence} ({picture})"


if __name__ == "__main__":
    print(main(*sys.argv[1:2]))
