"""Commands on several processes and on a dask cluster: the same numbers, and clear errors."""

import sys
import warnings
from argparse import Namespace
from pathlib import Path

import pytest

from privsample.cli.parallel import parallel


def test_a_dask_cluster_gives_the_same_numbers(run):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**settings) as cluster:
        ran = run("reproduce", "balle-1a", "balle-table-1", "--out", "far", "--dask", cluster.scheduler_address)
    assert ran.code == 0
    assert run("reproduce", "balle-1a", "balle-table-1", "--out", "near").code == 0
    for name in ("balle-1a.csv", "balle-table-1.csv", "balle-1a.png"):
        assert Path("far", name).read_bytes() == Path("near", name).read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dask", "nowhere"], "--dask: no cluster answers at nowhere"),
        (["--dask", "tcp://127.0.0.1:1", "--jobs", "2"], "leave --jobs out"),
        (["--jobs", "0"], "expected a whole number of at least 1"),
    ],
)
def test_errors(run, words, message, monkeypatch):
    ran = run("reproduce", "balle-1a", *words)
    assert ran.code == 2
    assert message in ran.err


def test_a_malformed_address_starts_no_client(run, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: pytest.fail("it would hang when it is thrown away"))
    assert "missing port" in run("reproduce", "balle-1a", "--dask", "nowhere").err


def test_a_worker_that_is_replaced_alarms_nobody():
    with parallel(Namespace(dask=None, jobs=2)):
        warnings.warn("A worker stopped while some jobs were given to the executor.", UserWarning, stacklevel=1)
        with pytest.raises(UserWarning, match="another"):
            warnings.warn("another warning", UserWarning, stacklevel=1)


def test_dask_has_to_be_installed(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    ran = run("reproduce", "balle-1a", "--dask", "tcp://127.0.0.1:1")
    assert ran.code == 2
    assert "pip install 'privsample[dask]'" in ran.err
