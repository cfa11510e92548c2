"""Time of `import privsample` compared with the two libraries that it loads."""

import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import Row, milliseconds, paired


def rows() -> Iterator[Row]:
    """Times of whole processes, so that nothing is cached in the interpreter."""

    def run(code: str) -> None:
        subprocess.run([sys.executable, "-c", code], check=True)

    floor = "import numpy, scipy.special"
    cases = [
        ("import privsample", "import privsample", "at most 1.3"),
        ("import privsample and price one posterior draw", _PRICE, "none set"),
    ]
    for name, code, target in cases:
        library, peer = paired(lambda code=code: run(code), lambda: run(floor), runs=7)
        yield Row(
            name=name,
            library=milliseconds(library),
            peer=f"{milliseconds(peer)} {floor[7:]}",
            ratio=library / peer,
            target=target,
        )


_PRICE = """
import privsample as ps
ps.PosteriorAccountant(model=ps.BetaBernoulli(alpha=6, beta=12), n=100).rdp(2.0)
"""
