"""A release of a million draws compared with NumPy's sampler, and a long Parquet column with its reader."""

import resource
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privsample as ps
from benchmarks.measure import Row, milliseconds, paired
from privsample._entropy import system_generator

DRAWS = 1_000_000
ROWS = 100_000_000


def rows() -> Iterator[Row]:
    """Draws with the same kind of generator on both sides, then reading."""
    data = np.ones(100)
    distributions = {
        "Beta": (ps.BetaBernoulli(alpha=6, beta=12), lambda g: g.beta(106.0, 12.0, DRAWS)),
        "Gamma": (ps.GammaPoisson(shape=3, rate=1, upper=5), lambda g: g.gamma(103.0, 1 / 101, DRAWS)),
        "Normal": (
            ps.NormalKnownVariance(mean=0, variance=1, noise_variance=4, bounds=(-1, 1)),
            lambda g: g.normal(1.0, 0.2, DRAWS),
        ),
        "Dirichlet": (ps.DirichletCategorical(alpha=(1, 2, 3)), lambda g: g.dirichlet((1.0, 102.0, 3.0), DRAWS)),
    }
    for name, (model, peer) in distributions.items():
        mechanism = ps.DirectPosterior(model=model, n=100, draws=DRAWS, exact=False)
        rng = np.random.default_rng(1)
        library, theirs = paired(lambda m=mechanism, g=rng: m.release(data, rng=g), lambda p=peer, g=rng: p(g))
        yield _row(f"1e6 {name} draws, caller's generator", library, theirs, "numpy, same generator", "at most 1.3")
    mechanism = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=100, draws=DRAWS, exact=False)
    rng, secure = np.random.default_rng(1), system_generator()
    library, theirs = paired(lambda: mechanism.release(data), lambda: secure.beta(106.0, 12.0, DRAWS))
    yield _row("1e6 Beta draws, system entropy", library, theirs, "numpy over the same AES", "at most 1.3")
    library, theirs = paired(lambda: mechanism.release(data), lambda: rng.beta(106.0, 12.0, DRAWS))
    yield _row("1e6 Beta draws, system entropy", library, theirs, "numpy over PCG64", "none set")
    yield from exact(data)
    yield from parquet()


def exact(data: np.ndarray) -> Iterator[Row]:
    """Exact draws of every model, one and a thousand in a release, beside floating-point draws."""
    models: dict[str, tuple[ps.Model, float | tuple[float, float]]] = {
        "Beta": (ps.BetaBernoulli(alpha=6, beta=12), 0.05),
        "fractional Beta": (ps.BetaBernoulli(alpha=6, beta=12, fractional=True), 0.05),
        "Dirichlet": (ps.DirichletCategorical(alpha=(1, 2, 3)), 0.05),
        "Poisson": (ps.GammaPoisson(shape=5, rate=1, upper=4), (0.2, 1.5)),
        "exponential": (ps.GammaExponential(shape=5, rate=3, upper=4), (0.2, 1.5)),
        "normal": (ps.NormalKnownVariance(mean=0, variance=1, noise_variance=1, bounds=(-1, 2)), (0.2, 1.5)),
    }
    for name, (model, bounds) in models.items():
        for draws in (1, 1_000):
            direct = ps.DirectPosterior(model=model, n=100, draws=draws)
            tempered = ps.TemperedPosterior(model=model, n=100, temperature=2.0, truncation=bounds, draws=draws)
            for kind, mechanism in (("posterior", direct), ("tempered", tempered)):
                floats = replace(mechanism, exact=False)
                library, theirs = paired(lambda m=mechanism: m.release(data), lambda m=floats: m.release(data))
                numbers = next(iter(mechanism.release(data).draws.values())).size
                yield Row(
                    name=f"{draws} exact draws of a {name} {kind}",
                    library=f"{1e6 * (library - theirs) / numbers:.0f} µs more a number",
                    peer=f"{milliseconds(theirs)} with exact=False",
                    ratio=None,
                    target="at most 200 µs",
                )


def _row(name: str, library: float, theirs: float, peer: str, target: str) -> Row:
    return Row(
        name=name,
        library=milliseconds(library),
        peer=f"{milliseconds(theirs)} {peer}",
        ratio=library / theirs,
        target=target,
    )


def parquet(count: int = ROWS) -> Iterator[Row]:
    """One column of zeros and ones, as bytes and as doubles, read in batches."""
    with tempfile.TemporaryDirectory() as folder:
        for kind, size in (("int8", count), ("float64", count)):
            path = Path(folder) / f"{kind}.parquet"
            _write(path, kind, size)
            mechanism = ps.DirectPosterior(model=ps.BetaBernoulli(alpha=6, beta=12), n=size)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            library, theirs = paired(
                lambda m=mechanism, p=path: m.release(_Reader(p)), lambda p=path: _drain(p), runs=2
            )
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (
                1 if sys.platform == "darwin" else 1024
            )
            name = f"release from {size:.0e} {kind} Parquet rows"
            yield _row(name, library, theirs, "reading alone", "about 1")
            yield Row(
                name="  growth of memory", library=f"{grown / 2**20:.0f} MiB", peer="", ratio=None, target="constant"
            )
            path.unlink()


def _write(path: Path, kind: str, size: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("x", kind)])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, size, 1 << 22):
            block = rng.integers(0, 2, min(1 << 22, size - start)).astype(kind)
            writer.write_table(pa.table({"x": block}, schema=schema))


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    return pq.ParquetFile(path).iter_batches(batch_size=1 << 18, columns=["x"])


class _Reader:
    """A stream that starts from the beginning at each request."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __arrow_c_stream__(self, requested: object = None) -> object:
        schema = pq.read_schema(self.path)
        return pa.RecordBatchReader.from_batches(schema, _batches(self.path)).__arrow_c_stream__(requested)


def _drain(path: Path) -> int:
    return sum(batch.num_rows for batch in _batches(path))
