"""Files of all kinds: what is read, what is refused, and that memory stays constant."""

import gzip
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privsample import BetaBernoulli
from privsample.cli import main
from privsample.cli.files import Column
from privsample.cli.values import encode_categories, parse_numbers

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]
BINARY = [1, 0, 1, 1]


def check(run, file, n=4, *words):
    return run("validate", file, "--column", "x", "--n", n, *MODEL, "--json", *words)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(BINARY, pa.int8()),
        pa.array(BINARY, pa.uint64()),
        pa.array(BINARY, pa.float32()),
        pa.array(BINARY).cast(pa.bool_()),
        pa.array([Decimal(item) for item in BINARY], pa.decimal128(5, 2)),
        pa.array(BINARY, pa.int32()).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_every_numeric_type(run, column):
    pa.parquet.write_table(pa.table({"x": column}), "d.parquet")
    assert check(run, "d.parquet").json["clean"]
    assert BetaBernoulli(alpha=1, beta=1).summarize(Column("d.parquet", "x"))[0] == 3


def test_nulls_are_counted_in_every_type(run):
    columns = [pa.array([1, None, 0, None]).cast(kind) for kind in (pa.int64(), pa.float64(), pa.bool_())]
    columns += [pa.array([1, None, 0, None]).dictionary_encode(), pa.nulls(4)]
    for column in columns:
        pa.parquet.write_table(pa.table({"x": column}), "d.parquet")
        ran = check(run, "d.parquet")
        assert ran.code == 1
        assert ran.json["problems"]["missing"] == column.null_count


def test_text_that_is_no_number_is_called_text_and_what_is_empty_missing(run):
    Path("d.csv").write_text("x,y\n1,a\nZaphod,b\nTRUE,c\n,d\nnan,e\n0x1,f\n+1.0,g\n false ,h\n987654321012.25,i\n")
    ran = check(run, "d.csv", 9)
    assert ran.code == 1
    assert ran.json["problems"] == {"missing": 2, "text": 2, "outside": 1, "fractional": 0}
    assert ran.json["places"] == {"missing": "lines 5, 6", "text": "lines 3, 7", "outside": "line 10"}


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz", "d.CSV", "d.txt"])
def test_byte_order_marks_line_ends_and_compression(run, name):
    raw = b"\xef\xbb\xbfx,name\r\n" + b'1,"a, b\nc"\r\n0,\xff\xfe\r\n' * 2
    Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    ran = check(run, name, 4, "--multiline")
    assert ran.code == 0, ran.err
    assert ran.json["clean"]


@pytest.mark.parametrize(("name", "separator", "words"), [("d.tsv", "\t", []), ("d.csv", ";", ["--separator", ";"])])
def test_other_separators(run, name, separator, words):
    Path(name).write_text("".join(f"{a}{separator}{b}\n" for a, b in [("y", "x"), (3, 1), (3, 0)]))
    assert check(run, name, 2, *words).code == 0


@pytest.mark.parametrize(
    ("name", "content", "code", "said"),
    [
        ("none.csv", None, 2, "there is no file none.csv"),
        ("d.xlsx", b"PK", 2, "must end in one of .csv"),
        ("d.parquet.gz", b"PK", 2, "must end in one of .csv"),
        ("d.csv", b"", 1, "is empty"),
        ("d.parquet", b"", 1, "is empty"),
        ("d.csv", b"x,name", 1, "cannot be read as UTF-8 text with a header"),
        (
            "d.csv",
            b"x,name\n1,Zaphod\nZaphod\n",
            1,
            "line 3 of d.csv has a row of 1 field where the header",
        ),
        (
            "d.csv",
            b"x,name\n1,Zaphod\n1,2,Zaphod\n",
            1,
            "line 3 of d.csv has a row of 3 fields where the header",
        ),
        ("d.csv", b"x,name\n1," + b"Zaphod" * 500_000 + b"\n", 1, "a row of more than 1 MB"),
        ("d.csv", b"name,y\nZaphod,1\n", 2, "names 2 columns, none of them 'x'"),
        ("e.csv", b"Zaphod\n1\n", 2, "names one column, none of them 'x'"),
        ("d.csv", b"name;x\nZaphod;1\n", 2, "names one column, none of them 'x'"),
        ("d.csv", b"x,name,x\n1,Zaphod,1\n", 2, "has 2 columns named 'x'"),
        ("d.csv", b"987654321012.25,Zaphod\n987654321012.25,Zaphod\n", 2, "that the file has a header"),
        ("d.csv", b"x\n", 1, "n = 4 records were declared, the data hold 0"),
        ("d.csv.gz", b"x\n1\n", 1, "cannot be read"),
        ("d.csv", b"\xff\xfex\x00,\x00y\x00\n\x00", 1, "d.csv is UTF-16 text, expected UTF-8; give --encoding utf-16"),
        ("d.parquet", b"PAR1 Zaphod PAR1", 1, "incomplete"),
        ("d.feather", b"ARROW1 Zaphod", 1, "incomplete"),
        ("d.parquet", b"x\n1\n", 1, "in another format"),
    ],
)
def test_files_that_cannot_be_read(run, name, content, code, said):
    if content is not None:
        Path(name).write_bytes(content)
    ran = check(run, name)
    assert ran.code == code, ran.err
    assert said in ran.err


def test_a_folder_is_no_file(run):
    Path("d.csv").mkdir()
    assert "cannot be opened: Is a directory" in check(run, "d.csv").err


@pytest.mark.parametrize("name", ["d.parquet", "d.feather", "d.csv.gz"])
@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_half_written_files(run, write, name, kept):
    column = np.random.default_rng(0).integers(0, 2, 50_000)
    if name.endswith(".gz"):
        Path(name).write_bytes(gzip.compress(Path(write("d.csv", column)).read_bytes()))
    else:
        write(name, column)
    whole = Path(name).read_bytes()
    assert check(run, name, 50_000).code == 0
    Path(name).write_bytes(whole[: int(kept * len(whole))])
    ran = check(run, name, 50_000)
    assert ran.code == 1
    assert ran.out == ""


def test_a_broken_page_is_found_while_drawing(run):
    column = np.random.default_rng(0).random(400_000)
    pa.parquet.write_table(pa.table({"x": column}), "d.parquet", compression="gzip", use_dictionary=False)
    whole = bytearray(Path("d.parquet").read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 20_000] = bytes(20_000)
    Path("d.parquet").write_bytes(bytes(whole))
    ran = check(run, "d.parquet", 400_000, "--fractional")
    assert ran.code == 1
    assert "d.parquet cannot be read" in ran.err


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array(["Zaphod"] * 4), "holds text (type string)"),
        (pa.array(["Zaphod"] * 4).dictionary_encode(), "holds text"),
        (pa.array([0, 1, 2, 3]).cast(pa.timestamp("us")), "has type timestamp;"),
        (pa.array([[1], [0], [1], [1]]), "expected numbers or booleans"),
    ],
)
def test_columns_that_are_no_numbers(run, write, column, said):
    ran = check(run, write("d.parquet", column))
    assert ran.code == 1
    assert said in ran.err


@pytest.mark.parametrize("name", ["a.b", "a", "a b", "größe", "[x]", "x,y"])
@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_columns_are_found_by_any_name(run, name, ending):
    table = pa.table({"ab": ["Zaphod"] * 4, name: BINARY, "a.c": ["Zaphod"] * 4})
    write = {"parquet": pa.parquet.write_table, "feather": pa.feather.write_feather, "csv": pa.csv.write_csv}
    write[ending](table, f"d.{ending}")
    ran = run("validate", f"d.{ending}", "--column", name, "--n", 4, *MODEL, "--json")
    assert ran.code == 0, ran.err


def test_a_name_that_could_mean_two_columns(run):
    nested = pa.StructArray.from_arrays([pa.array([9, 9])], ["b"])
    pa.parquet.write_table(pa.table({"a": nested, "a.b": [0, 1]}), "d.parquet")
    ran = run("validate", "d.parquet", "--column", "a.b", "--n", 2, *MODEL)
    assert ran.code == 2
    assert "several columns that match 'a.b'" in ran.err


def test_names_become_codes(run):
    names = pa.array([" red", "green ", "Zaphod", None, "", "blue"])
    for column in (names, names.cast(pa.large_string()), names.dictionary_encode(), names.cast(pa.binary())):
        pa.parquet.write_table(pa.table({"x": column}), "d.parquet")
        words = ["--model", "dirichlet-categorical", "--prior", "1,1,1", "--categories", "red,green,blue"]
        ran = run("validate", "d.parquet", "--column", "x", "--n", 6, *words, "--json")
        assert ran.json["problems"] == {"missing": 2, "text": 0, "outside": 1, "fractional": 0}
    assert encode_categories(pa.array([3, 1, None, 9]), ["1", "3"]).to_pylist() == [1, 0, None, -1]
    assert encode_categories(pa.array([True, False]), ["true", "false"]).to_pylist() == [0, 1]
    pa.parquet.write_table(pa.table({"x": pa.array([1.5])}), "d.parquet")
    ran = run("validate", "d.parquet", "--column", "x", "--n", 1, *words)
    assert "--categories needs text, whole numbers or booleans" in ran.err


texts = st.one_of(
    st.text(alphabet="0123456789+-.eE \t_xXnNaAiIfFtTyY,", max_size=12).map(str.encode),
    st.binary(max_size=6),
    st.floats().map(lambda item: repr(item).encode()),
)


@given(st.lists(st.one_of(st.none(), texts), max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_records_are_read_each_by_itself_and_never_fail(values):
    def numbers(items):
        return [
            None if x is None else "text" if np.isnan(x) else x
            for x in parse_numbers(pa.array(items, pa.binary())).to_pylist()
        ]

    together = numbers(values)
    alone = [numbers([item])[0] for item in values]
    assert together == alone
    for item, found in zip(values, alone, strict=True):
        if found == "text":
            assert item.strip(b" \t\r").lower() not in (b"", b"nan", b"na", b"n/a", b"null", b"none")
        elif found is not None:
            assert found == (float(item) if item.strip(b" \t\r").lower() not in (b"true", b"false") else found)
    assert len(encode_categories(pa.array(values, pa.binary()), ["a", "1"])) == len(values)


MEMORY = """
import resource, sys
from privsample.cli import main
peaks = []
for n in (20_000, 2_000_000):
    file = f"d{n}." + sys.argv[1]
    words = ["validate", file, "--column", "x", "--n", str(n), "--model", "beta-bernoulli", "--prior", "1,1", "--json"]
    assert main(words) == 0
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print("grown", peaks[1] - peaks[0], file=sys.stderr)
"""


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_memory_stays_constant(ending):
    for n in (20_000, 2_000_000):
        table = pa.table({"x": np.tile([0.0, 1.0], n // 2), "other": np.arange(n)})
        if ending == "parquet":
            pa.parquet.write_table(table, f"d{n}.parquet", row_group_size=n, use_dictionary=False, compression="none")
        elif ending == "feather":
            pa.feather.write_feather(table, f"d{n}.feather", compression="uncompressed")
        else:
            pa.csv.write_csv(table, f"d{n}.csv")
    ran = subprocess.run([sys.executable, "-c", MEMORY, ending], capture_output=True, text=True, check=True)
    assert float(ran.stderr.split()[-1]) < 40, ran.stderr  # megabytes; the tables hold 32


def test_a_blank_line_of_a_lone_column_is_a_missing_record(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n\n0\n")
    words = ["validate", str(path), "--column", "a", "--n", "3", "--model", "beta-bernoulli", "--prior", "1,1"]
    assert main(words) == 1
    assert "missing" in capsys.readouterr().out


def test_a_pipe_is_refused_and_does_not_hang(tmp_path, capsys):
    path = tmp_path / "a.csv"
    os.mkfifo(path)
    words = ["validate", str(path), "--column", "a", "--n", "3", "--model", "beta-bernoulli", "--prior", "1,1"]
    assert main(words) == 2
    assert "not a regular file" in capsys.readouterr().err
