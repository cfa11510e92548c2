"""The numbers of an account that are recorded beside stored files."""

import numpy as np

from privsample._serial import encode

DELTAS = (0.0, 1e-9, 1e-6, 1e-2)
EPSILONS = (0.0, 0.5, 2.0)
ORDERS = (1.25, 2.0, 8.0)


def account_numbers(account):
    """Views of an account as JSON; infinite numbers as text, which `float` reads."""
    views = {
        "epsilon": account.epsilon(DELTAS),
        "delta": account.delta(EPSILONS),
        "rdp": account.rdp(ORDERS),
        "failure": [account.infinity_mass],
        "max_loss": [account.pure_epsilon],
    }
    numbers = {
        name: [x if np.isfinite(x) else str(x) for x in np.asarray(view).tolist()] for name, view in views.items()
    }
    return numbers | {
        "relation": encode(account.relation),
        "assumptions": sorted(a.name for a in account.assumptions),
    }
