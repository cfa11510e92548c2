"""Releases from Parquet files against the plain work: DuckDB's GROUP BY of the same columns, or reading one column.

`python -m benchmarks engines` takes 10^7 rows; `python -m benchmarks.engines 1e9` takes the number of rows that it is
told, in a folder of its own that it deletes.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import privsample as ps
from benchmarks.measure import HEADER, Row

ROWS, GROUPS = 10**7, 10**6
_PART = 10**8  # rows of a file
_SETTINGS = {"threads": 2, "preserve_insertion_order": "false"}


def rows(count: int = ROWS) -> Iterator[Row]:
    """Processor times and wall times of grouped releases and of the release of one column."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), count)
        yield from grouped(folder, count)
        yield from column(Path(folder) / "0.parquet", min(count, _PART))
    yield from shards()


def write(folder: Path, count: int, groups: int = GROUPS) -> None:
    """Files of a key (32 bits) and a value (double, uniform from -1 to 11), in the order of a hash."""
    with duckdb.connect(config=_SETTINGS) as connection:
        for part, start in enumerate(range(0, count, _PART)):
            end = min(start + _PART, count)
            connection.execute(
                f"COPY (SELECT (hash(i) % {groups})::INTEGER AS key, "
                f"((hash(i + {10**10}) % 1000000007)::DOUBLE / 1000000007.0 * 12 - 1)::DOUBLE AS x "
                f"FROM range({start}, {end}) t(i)) TO '{folder / f'{part}.parquet'}' (FORMAT parquet)"
            )


def mechanism(groups: int = GROUPS) -> ps.Mechanism:
    """A noisy sum for each group."""
    return ps.by("key", ps.GaussianSum(bounds=(0, 10), noise_std=40), keys=np.arange(groups))


def release(folder: str, release_of: ps.Mechanism) -> object:
    """Our grouped release, computed in DuckDB."""
    return release_of.release(ps.tally_source(folder, release_of, columns="x", engine="duckdb"))


def plain(folder: str) -> object:
    """DuckDB's own sums and counts of the same columns."""
    with duckdb.connect(config=_SETTINGS) as connection:
        query = f"SELECT key, sum(x), count(*) FROM read_parquet('{folder}/*.parquet') GROUP BY key"
        return connection.sql(query).to_arrow_table()


def grouped(folder: str, count: int, runs: int = 3) -> Iterator[Row]:
    """Our grouped release against DuckDB's GROUP BY, and the peak memory of each in a process of its own."""
    ours = mechanism()
    best = alternated(lambda: release(folder, ours), lambda: plain(folder), runs)
    yield from _rows(f"grouped release, {count:.0e} rows, {GROUPS:.0e} groups", best, "GROUP BY", "ratio <= 1.5")
    for files in sorted({1, len(list(Path(folder).glob("*.parquet")))}):
        peaks = [_peak(folder, files, name) for name in ("release", "plain")]
        size = min(count, files * _PART)
        yield Row(
            name=f"  peak memory, {size:.0e} rows",
            library=f"{peaks[0]:.0f} MiB",
            peer=f"{peaks[1]:.0f} MiB GROUP BY",
            ratio=peaks[0] / peaks[1],
            target="does not grow with rows",
        )


def column(path: Path, count: int, runs: int = 5) -> Iterator[Row]:
    """Releases of one streamed column against reading it."""
    bits = path.with_name("bits.parquet")
    with pq.ParquetWriter(bits, pa.schema([("x", pa.int8())])) as writer:
        rng = np.random.default_rng(0)
        for start in range(0, count, 1 << 22):
            writer.write_table(pa.table({"x": rng.integers(0, 2, min(1 << 22, count - start)).astype(np.int8)}))
    sums = ps.GaussianSum(bounds=(0, 10), noise_std=40)
    statistics = ps.NoisyStatistics(model=ps.BetaBernoulli(alpha=1, beta=1), n=count, scale=2.0)
    for name, release_of, file in (("GaussianSum", sums, path), ("NoisyStatistics", statistics, bits)):
        best = alternated(lambda m=release_of, f=file: m.release(_Column(f)), lambda f=file: _drain(f), runs)
        yield from _rows(f"{name}, {count:.0e} rows", best, "reading alone", "ratio <= 1.2")


def shards(count: int = 10**6, groups: int = 1000) -> Iterator[Row]:
    """Whether divided data give the tally and, from the same generator, the release of all data at once."""
    rng = np.random.default_rng(0)
    special = [np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, 2.5]
    keys = rng.integers(0, groups, count)
    values = np.where(rng.random(count) < 0.1, rng.choice(special, count), rng.uniform(-1, 11, count))
    ours = mechanism(groups)
    expected = ours.tally((keys, values))
    drawn = ours.release(expected, rng=np.random.default_rng(7))
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 7, 64):
            chosen = Path(folder) / str(number)
            chosen.mkdir()
            for place, part in enumerate(np.array_split(rng.permutation(count), number)):
                pq.write_table(pa.table({"key": keys[part], "x": values[part]}), chosen / f"{place}.parquet")
            for engine in ("arrow", "duckdb", "polars", "dask"):
                tally = ps.tally_source(chosen, ours, columns="x", engine=engine)  # type: ignore[arg-type]
                same = tally == expected and ours.release(tally, rng=np.random.default_rng(7)) == drawn
                yield Row(
                    name=f"{count:.0e} rows in {number} shuffled shards, {engine}",
                    library="equal" if same else "different",
                    peer="all rows at once",
                    ratio=None,
                    target="equal tally and release",
                )


class _Column:
    """The column x of a Parquet file as an Arrow stream."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __arrow_c_stream__(self, requested: object = None) -> object:
        schema = pa.schema([pq.read_schema(self.path).field("x")])
        return pa.RecordBatchReader.from_batches(schema, _batches(self.path)).__arrow_c_stream__(requested)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=1 << 18, columns=["x"])


def _drain(path: Path) -> int:
    return sum(batch.num_rows for batch in _batches(path))


Times = tuple[tuple[float, float], tuple[float, float]]


def alternated(library: Callable[[], object], peer: Callable[[], object], runs: int) -> Times:
    """For each of two functions, which are called in turn, its least processor time and its least wall time."""
    taken: tuple[list[tuple[float, float]], ...] = ([], [])
    for _ in range(runs):
        for function, times in zip((library, peer), taken, strict=True):
            wall, used = time.perf_counter(), time.process_time()
            function()
            times.append((time.process_time() - used, time.perf_counter() - wall))
    first, second = ((min(used for used, _ in each), min(wall for _, wall in each)) for each in taken)
    return first, second


def _rows(name: str, times: Times, peer: str, target: str) -> Iterator[Row]:
    for kind, ours, theirs in zip(("processor time", "wall time"), *times, strict=True):
        yield Row(
            name=f"{name}, {kind}",
            library=f"{ours:.3g} s",
            peer=f"{theirs:.3g} s {peer}",
            ratio=ours / theirs,
            target=target,
        )


def _peak(folder: str, files: int, name: str) -> float:
    """The peak memory in MiB of a process that reads the first files."""
    command = [sys.executable, "-m", "benchmarks.engines", "peak", folder, str(files), name]
    return float(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def _print_peak(folder: str, files: int, name: str) -> None:
    with tempfile.TemporaryDirectory() as chosen:
        for part in range(files):
            (Path(chosen) / f"{part}.parquet").symlink_to(Path(folder) / f"{part}.parquet")
        release(chosen, mechanism()) if name == "release" else plain(chosen)
    status = Path("/proc/self/status").read_text(encoding="utf-8")  # getrusage would count the parent's memory
    print(int(status.partition("VmHWM:")[2].split()[0]) / 2**10)


if __name__ == "__main__":
    if sys.argv[1] == "peak":
        _print_peak(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        print(HEADER)
        for row in rows(int(float(sys.argv[1]))):
            print(row.text(), flush=True)
