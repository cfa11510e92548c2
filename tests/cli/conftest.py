"""Files with canaries in them, and a way to run the command."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from privsample.cli import main

CANARIES = ("987654321012", "9.87654e+11", "Zaphod")  # no output may show these; too long for draws to spell by chance
MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def run(capsys):
    """Run the command; whatever happens, no canary comes out, errors are one line, and nothing half-written stays."""

    def ran(*words):
        code = main([str(word) for word in words])
        result = Ran(code, *capsys.readouterr())
        for canary in CANARIES:
            assert canary not in result.out + result.err
        assert "Traceback" not in result.err
        assert "defect" not in result.err
        if code:
            errors = [line for line in result.err.splitlines() if line.startswith("privsample: error: ")]
            assert len(errors) == (words[0] != "validate" or bool(result.err))
        assert not [path for path in Path().iterdir() if path.name.startswith(".")]
        for path in [*Path().glob("*.json"), *Path().glob("*.nc"), *Path().glob("*.html")]:
            assert path.is_dir() or not any(canary.encode() in path.read_bytes() for canary in CANARIES)
        return result

    return ran


@pytest.fixture
def binary():
    return np.random.default_rng(7).integers(0, 2, 500)


@pytest.fixture
def write():
    """Write a column `x` beside a column of names."""

    def written(name, column):
        column = column if isinstance(column, pa.Array) else pa.array(column)
        table = pa.table({"x": column, "name": pa.array(["Zaphod"] * len(column))})
        match Path(name).suffix:
            case ".parquet":
                pa.parquet.write_table(table, name)
            case ".feather":
                pa.feather.write_feather(table, name)
            case _:
                lines = ["" if item is None else str(item) for item in column.to_pylist()]
                Path(name).write_text(
                    "".join(f"{line}\n" for line in ["x,name", *(f"{item},Zaphod" for item in lines)])
                )
        return name

    return written


@pytest.fixture
def clean(write, binary):
    return write("clean.csv", binary)


@pytest.fixture
def dirty(write, binary):
    values = [float(item) for item in binary]
    values[3], values[5], values[8] = 987654321012.25, None, 0.75
    return write("dirty.csv", values)
