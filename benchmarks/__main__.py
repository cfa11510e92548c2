"""Run all benchmarks, or those named: `python -m benchmarks draws calibration`."""

import sys

from benchmarks import (
    allocation,
    audit,
    bernoulli,
    bits,
    calibration,
    composition,
    confidence,
    costs,
    draws,
    engines,
    epochs,
    exact_draws,
    gaussian_dp,
    gibbs,
    groups,
    imports,
    inference,
    keys,
    langevin,
    ledger,
    logistic,
    many_members,
    one_run,
    peers,
    postprocessing,
    profiles,
    pymc,
    regression,
    risk,
    search,
    selection,
    sequential,
    sgd,
    shuffling,
    statistics,
    synthetic,
    tallies,
    timing,
)
from benchmarks.measure import HEADER

ALL = {
    "allocation": allocation.rows,
    "imports": imports.rows,
    "calibration": calibration.rows,
    "peers": peers.rows,
    "gaussian_dp": gaussian_dp.rows,
    "risk": risk.rows,
    "composition": composition.rows,
    "many_members": many_members.rows,
    "confidence": confidence.rows,
    "costs": costs.rows,
    "ledger": ledger.rows,
    "profiles": profiles.rows,
    "selection": selection.rows,
    "search": search.rows,
    "statistics": statistics.rows,
    "inference": inference.rows,
    "gibbs": gibbs.rows,
    "synthetic": synthetic.rows,
    "pymc": pymc.rows,
    "audit": audit.rows,
    "bits": bits.rows,
    "one-run": one_run.rows,
    "sequential": sequential.rows,
    "keys": keys.rows,
    "tallies": tallies.rows,
    "timing": timing.rows,
    "draws": draws.rows,
    "engines": engines.rows,
    "exact-draws": exact_draws.rows,
    "groups": groups.rows,
    "postprocessing": postprocessing.rows,
    "bernoulli": bernoulli.rows,
    "sgd": sgd.rows,
    "shuffling": shuffling.rows,
    "epochs": epochs.rows,
    "langevin": langevin.rows,
    "logistic": logistic.rows,
    "regression": regression.rows,
}


def main(names: list[str]) -> int:
    """Print each result as soon as it is measured."""
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        print(f"unknown benchmarks {unknown}; there are {sorted(ALL)}", file=sys.stderr)
        return 2
    print(HEADER, flush=True)
    for name in names or ALL:
        for row in ALL[name]():
            print(row.text(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
