"""`python -m tests.accounting.search 2000 [SEED] [FAMILY ...]` searches each family and prints what it finds."""

import sys
import time

from tests.accounting.search.check import search
from tests.accounting.search.families import FAMILIES

if __name__ == "__main__":
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for name in sys.argv[3:] or FAMILIES:
        start = time.process_time()
        found = search(name, count, seed, slack=1e-15)
        print(f"{name:<24} {found.text()}, {time.process_time() - start:.1f} s", flush=True)
        for account, comparison in sorted(found.below or [], key=lambda pair: pair[1].excess)[:3]:
            print("   ", comparison, account, flush=True)
        for account in found.unstated[:3]:
            print("    no number is stated of", account, flush=True)
