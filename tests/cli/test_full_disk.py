"""A release that was drawn and paid for is not lost when its file cannot be written."""

import subprocess
import sys
from pathlib import Path

import pytest

import privsample as ps

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]
LIMIT = ["--epsilon", "3", "--delta", "1e-6"]
WRITES = """
import resource, signal, sys, tempfile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = sys.argv.pop(1)
limit = int(sys.argv.pop(1))
tempfile.tempdir = kept
import privsample.cli, privsample.cli.release
if sys.argv[sys.argv.index("--out") + 1].endswith(".nc"):
    import arviz, xarray, h5netcdf, h5py
true = privsample.cli.release._write
def write(*args):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    return true(*args)
privsample.cli.release._write = write
sys.exit(privsample.cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("ending", "spare"),
    [  # each kind of file and each place where the release is kept; the other two pairs take seconds and add neither
        ("json", False),
        ("nc", True),
        pytest.param("json", True, marks=pytest.mark.long),
        pytest.param("nc", False, marks=pytest.mark.long),
    ],
)
def test_a_full_disk_loses_no_release(run, clean, ending, spare, tmp_path):
    """The limit on the size of files stands for a disk that is full: HDF5 would end the process there."""
    place = tmp_path / "spare"
    if spare:
        place.mkdir()
    words = ["release", clean, "--column", "x", "--n", 500, *MODEL, "--mechanism", "diffused", "--epsilon", 0.5]
    words += ["--delta", "1e-7", "--unit", "person"]
    words += ["--ledger", "l.db", "--out", f"r.{ending}"]
    assert run("ledger", "init", "l.db", *LIMIT, "--n", 500, "--dataset", "visits", "--unit", "person").code == 0
    limit = 20_000 if spare else 100
    command = [sys.executable, "-c", WRITES, str(place), str(limit), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if ending == "json" and spare:
        assert done.returncode == 0  # the release is smaller than the limit
        return
    assert done.returncode == 2, done.stderr
    assert f"r.{ending} could not be written (File too large); the release was drawn, and " in done.stderr
    text = next(place.iterdir()).read_text(encoding="utf-8") if spare else done.stdout
    release = ps.Release.from_json(text[text.index("{") :])
    assert release["theta"].shape == (1,)
    assert len(ps.Ledger("l.db").history()) == 1
    assert not Path(f"r.{ending}").exists()
    assert not [path for path in Path().iterdir() if path.name.startswith(".")]
