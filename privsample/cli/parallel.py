"""Parallel execution of a command in several processes or on a dask cluster. Results do not depend on the choice."""

import warnings
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from privsample.cli.errors import UsageProblem, require
from privsample.cli.options import whole_number


def add_jobs(parser: Any) -> None:
    """Add the options of parallel execution."""
    parser.add_argument(
        "--jobs", type=whole_number, default=1, metavar="K", help="number of parallel processes (default: 1)"
    )
    parser.add_argument("--dask", metavar="ADDRESS", help="run on the dask cluster with this scheduler address")


@contextmanager
def parallel(args: Namespace) -> Iterator[None]:
    """Configure joblib for the code inside the context. Raises: UsageProblem, if no cluster answers."""
    require("joblib", "audit", "a parallel run")
    from joblib import parallel_config

    if args.dask is None:
        # joblib restarts a worker whose memory has grown by 300 MB and warns; no results are lost.
        with warnings.catch_warnings(), parallel_config(n_jobs=args.jobs):
            warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
            yield
        return
    if args.jobs != 1:
        raise UsageProblem("--dask and --jobs exclude each other: leave --jobs out")
    with dask_client(args.dask) as client, parallel_config(backend="dask", client=client):
        yield


def dask_client(address: str, *, default: bool = False) -> Any:
    """Return a client of the cluster with this scheduler address. Raises: UsageProblem, if none answers.

    With `default`, all dask collections are computed there while the client is open.
    """
    require("distributed", "dask", "--dask")
    distributed: Any = import_module("distributed")
    try:
        distributed.comm.resolve_address(address)  # a client that fails on a malformed address hangs
        client = distributed.Client(address, timeout="10s", set_as_default=default)
    except (OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise UsageProblem(f"--dask: no cluster answers at {address} ({reason})") from None
    return client
