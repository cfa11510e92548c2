"""Columns of text, words with numbers, encodings, and what is said of lines and headers; never a record."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

N = 300
MODEL = ["--n", N, "--model", "beta-bernoulli", "--prior", "2,2"]
DIFFUSED = ["--mechanism", "diffused", "--data-weight", "0.1"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]
WORDS = ["Zaphod", "no", "no"] * (N // 3)
MAP = ["--map", "Zaphod=1,no=0"]


@pytest.fixture
def words():
    Path("d.csv").write_text("x,age\n" + "".join(f"{word},{age}\n" for age, word in enumerate(WORDS)))
    return "d.csv"


def test_a_column_of_text_is_called_text_and_never_missing(run, words):
    ran = run("validate", words, "--column", "x", *MODEL, "--json")
    assert ran.code == 1
    assert ran.json["problems"] == {"missing": 0, "text": N, "outside": 0, "fractional": 0}
    assert ran.json["nothing_read"]
    ran = run("validate", words, "--column", "x", *MODEL)
    assert "missing" not in ran.out
    assert "is refused" in ran.out
    assert "could be read, expected 0 or 1" in " ".join(ran.out.split())
    assert "--map" in ran.out


@pytest.mark.parametrize("extra", [[], ["--clip"]])
def test_a_column_in_which_nothing_can_be_read_is_refused_with_clip_too(run, words, extra):
    ran = run("release", words, "--column", "x", *MODEL, *DIFFUSED, "--out", "r.json", *extra)
    assert ran.code == 1
    assert "no record in column 'x' of d.csv could be read, expected 0 or 1" in ran.err
    assert "nothing was drawn or written" in ran.err
    assert not Path("r.json").exists()


@pytest.mark.parametrize(
    "column",
    [pa.nulls(N), pa.array([None] * N, pa.float64()), pa.array([float("nan")] * N)],
    ids=["null", "no value", "nan"],
)
def test_columns_without_any_value_are_refused_with_clip_too(run, write, column):
    ran = run("release", write("d.parquet", column), "--column", "x", *MODEL, *DIFFUSED, "--out", "r.json", "--clip")
    assert ran.code == 1
    assert "no record in column 'x'" in ran.err


def test_unknown_categories_alone_are_refused_with_clip_too(run, words):
    model = ["--n", N, "--model", "dirichlet-categorical", "--prior", "2,2", "--categories", "red,blue"]
    ran = run("release", words, "--column", "x", *model, *DIFFUSED, "--out", "r.json", "--clip")
    assert ran.code == 1
    assert "no record in column 'x'" in ran.err


def test_one_number_is_enough_for_clip(run):
    Path("d.csv").write_text("x,age\n" + "Zaphod,1\n" * (N - 1) + "1,1\n")
    ran = run("release", "d.csv", "--column", "x", *MODEL, *DIFFUSED, "--out", "r.json", "--clip", "--json")
    assert ran.code == 0
    assert f"{N - 1} text (expected 0 or 1); text on lines 2, 3, 4; " in ran.err


def test_rows_with_a_column_of_text_are_refused_with_clip_too(run, words):
    rows = ["--columns", "x,age", "--label", "age", "--mechanism", "logistic", "--n", N, "--features", "2"]
    ran = run("release", words, *rows, "--norm", "1", "--prior-std", "1", "--out", "r.json", "--clip", *LIMIT)
    assert ran.code == 1
    assert "no record in column 'x' of d.csv could be read, expected numbers" in ran.err


def test_rows_with_some_text_say_where_it_stands(run):
    Path("d.csv").write_text("x,y\n1,0\nZaphod,1\n,0\n2,Zaphod\n")
    rows = ["--columns", "x,y", "--label", "y", "--mechanism", "logistic", "--n", 4, "--features", "2"]
    ran = run("validate", "d.csv", *rows, "--norm", "1", "--prior-std", "1", "--json")
    assert ran.json["places"] == {"text in column 'x'": "line 3", "text in column 'y'": "line 5"}
    said = " ".join(run("validate", "d.csv", *rows, "--norm", "1", "--prior-std", "1").out.split())
    assert "There is text in column 'x', first on line 3." in said


def test_a_statistic_without_a_number_is_refused_with_clip_too(run):
    Path("s.json").write_text('"Arthur"')
    noise = ["--mechanism", "gaussian", "--sensitivity", "1", "--noise-std", "1"]
    ran = run("release", "s.json", *noise, "--out", "r.json", "--clip")
    assert ran.code == 1
    assert "no record in the statistic of s.json could be read" in ran.err


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "feather"])
def test_words_are_mapped_to_numbers(run, words, ending):
    column = pa.array([f" {word}" if place % 2 else word for place, word in enumerate(WORDS)])
    name = f"d.{ending}"
    match ending:
        case "csv.gz":
            Path(name).write_bytes(gzip.compress(Path(words).read_bytes()))
        case "parquet":
            pa.parquet.write_table(pa.table({"x": column.dictionary_encode()}), name)
        case "feather":
            pa.feather.write_feather(pa.table({"x": column}), name)
    assert run("validate", name, "--column", "x", *MODEL, *MAP, "--json").json["clean"]
    noise = ["--mechanism", "laplace-sum", "--bounds", "0,1", "--scale", "1e-9"]
    ran = run("release", name, "--column", "x", *noise, *MAP, "--out", "r.json", "--json")
    assert ran.code == 0, ran.err
    released = json.loads(Path("r.json").read_text())["draws"]["sum"]["values"]
    assert np.allclose(released, N // 3, atol=1e-6)


def test_the_map_says_what_is_missing_and_leaves_other_numbers_as_they_are(run):
    Path("d.csv").write_text("x,y\nyes,1\n0,1\nunknown,1\ntrue,1\nmaybe,1\n9,1\n")
    model = ["--n", 6, "--model", "beta-bernoulli", "--prior", "2,2"]
    ran = run("validate", "d.csv", "--column", "x", *model, "--map", "yes=1,unknown=,9=0", "--json")
    assert ran.json["problems"] == {"missing": 1, "text": 1, "outside": 0, "fractional": 0}
    assert ran.json["places"] == {"missing": "line 4", "text": "line 6"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--map", "yes"], "expected different words with numbers such as yes=1,no=0, got 'yes'"),
        (["--map", "yes=1,yes=0"], "expected different words with numbers"),
        (["--map", "yes=x"], "expected a number, got 'x'"),
        (["--map", "=1"], "expected different words with numbers"),
        (["--encoding", "utf-99"], "expected an encoding such as utf-16 or latin-1, got 'utf-99'"),
        (["--encoding", "rot13"], "expected an encoding such as utf-16 or latin-1, got 'rot13'"),
    ],
)
def test_maps_and_encodings_that_are_none(run, words, given, said):
    ran = run("validate", words, "--column", "x", *MODEL, *given)
    assert ran.code == 2
    assert said in ran.err


def test_a_map_goes_with_text_and_without_categories(run, write):
    name = write("d.parquet", pa.array([0, 1] * (N // 2)))
    ran = run("validate", name, "--column", "x", *MODEL, *MAP)
    assert ran.code == 2
    assert "--map applies to text, and column 'x' of d.parquet holds none" in ran.err
    model = ["--n", N, "--model", "dirichlet-categorical", "--prior", "2,2", "--categories", "red,blue"]
    ran = run("validate", name, "--column", "x", *model, *MAP)
    assert ran.code == 2
    assert "give only one of them" in ran.err


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252"])
def test_other_encodings_are_read_when_they_are_named(run, ending, encoding):
    sign = "\t" if ending == "tsv" else ","
    raw = f"größe{sign}x\n".encode(encoding)
    raw += "".join(f"é{sign}{item}\n" for item in [1, 0] * (N // 2)).encode(encoding.removesuffix("16") + "16-le"
                   if encoding == "utf-16" else encoding)  # fmt: skip
    Path(f"d.{ending}").write_bytes(gzip.compress(raw) if ending == "csv.gz" else raw)
    ran = run("validate", f"d.{ending}", "--column", "x", *MODEL)
    assert ran.code == 1
    assert "--encoding" in ran.err
    assert run("validate", f"d.{ending}", "--column", "x", *MODEL, "--encoding", encoding, "--json").json["clean"]


def test_lines_are_counted_in_other_encodings(run):
    Path("d.csv").write_bytes("x,ü\r\n1,ü\r\n\r\nZaphod,ü\r\n".encode("utf-16"))
    model = ["--n", 2, "--model", "beta-bernoulli", "--prior", "2,2", "--encoding", "utf-16", "--json"]
    assert run("validate", "d.csv", "--column", "x", *model).json["places"] == {"text": "line 4"}


def test_lines_are_those_of_the_file(run):
    Path("d.csv").write_text('x,y\n1,"a\nb\nc"\n\nZaphod,"a\n"\n0,\n"Zaphod\n",2\n')
    model = ["--n", 4, "--model", "beta-bernoulli", "--prior", "2,2", "--json", "--multiline"]
    assert run("validate", "d.csv", "--column", "x", *model).json["places"] == {"text": "lines 6, 9"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfex\x00,\x00y\x00\n\x00", "d.csv is UTF-16 text, expected UTF-8; give --encoding utf-16"),
        ("x,y\n1,2\n".encode("utf-16-be"), "if it is UTF-16, give --encoding utf-16-be"),
        ("x,y\n1,2\n".encode("utf-16-le"), "if it is UTF-16, give --encoding utf-16-le"),
        (
            b"x,y\n1,\x00\x01\x02Zaphod\n1,2\n",
            "d.csv has zero bytes, so it is not UTF-8 text; it is damaged or in anoth",
        ),
        (b"x,y\n1,2\n3,4\n5,6,Zaphod\n", "line 4 of d.csv has a row of 3 fields where the header has 2 ('x', 'y')"),
        (b"x,y\n1,2\n3,4\n\n5\n", "line 5 of d.csv has a row of 1 field where the header has 2 ('x', 'y')"),
        (b'x,y\n1,2\n3,"a\nb"\n5,6,7\n', "line 5 of d.csv has a row of 3 fields"),
        (b"x;y\n1;2,5\n", "where the header has 1; it has no ',', but ';': give --separator ';'"),
        (
            b'x,y\n1,2\n3,"Zaphod\n5,6\n7,8\n',
            "line 3 of d.csv has a field that does not end on its line",
        ),
        (b"x,y\n1,2\n3," + b"4" * 2_000_000 + b"\n", "line 3 of d.csv starts a row of more than 1 MB"),
    ],
)
def test_broken_text_files_are_told_with_lines_and_columns(run, content, said):
    Path("d.csv").write_bytes(content)
    ran = run("validate", "d.csv", "--column", "x", *MODEL)
    assert ran.code == 1, ran.err
    assert said in ran.err


def test_an_encoding_that_the_file_does_not_have(run, words):
    ran = run("validate", words, "--column", "x", *MODEL, "--encoding", "utf-16")
    assert ran.code == 1
    assert "d.csv is not UTF-16 text: leave --encoding out" in ran.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("age,succes\n1,2\n3,4\n", "none of them 'success'; it has: 'age', 'succes'; did you mean succes?"),
        ("age;success\n1;2\n3;4\n", "it has no ',', but ';': give --separator ';'"),
        ("age\tsuccess\n1\t2\n3\t4\n", "it has no ',', but tab: give --separator tab"),
        (
            ",".join(f"c{i}" for i in range(30)) + "\n" + "1" + ",1" * 29 + "\n2" + ",2" * 29 + "\n",
            "'c19' and 10 more",
        ),
    ],
)
def test_unknown_columns_are_answered_with_those_found(run, content, said):
    Path("d.csv").write_text(content)
    ran = run("validate", "d.csv", "--column", "success", *MODEL)
    assert ran.code == 2
    assert said in ran.err


def test_unknown_columns_of_other_formats_are_answered_with_the_nearest_name(run):
    for write, name in ((pa.parquet.write_table, "d.parquet"), (pa.feather.write_feather, "d.feather")):
        write(pa.table({"age": [1], "succes": [1]}), name)
        ran = run("validate", name, "--column", "success", *MODEL)
        assert "it has: 'age', 'succes'; did you mean succes?" in ran.err


@pytest.mark.parametrize(
    "content",
    [
        "Zaphod,1\nFord,1\nArthur,2\n",  # a record has a number
        "Zaphod,x\nFord,y\nArthur,z\n",  # nothing but text: the first line may be a record
        "Zaphod,\nFord,1\nArthur,2\n",
        "Zaphod,true\nFord,false\nArthur,true\n",
        "Zaphod,Zaphod\n1,1\n2,2\n",
        "Zaphod\n",
        "Zaphod,x\n1,2\n",  # one record is too few to tell
    ],
)
def test_a_first_line_that_may_be_a_record_is_never_shown(run, content):
    Path("d.csv").write_text(content)
    ran = run("validate", "d.csv", "--column", "success", *MODEL)  # `run` looks for Zaphod
    assert ran.code == 2
    assert "that the file has a header" in ran.err
    ragged = content + "1,2,3,4\n"
    Path("d.csv").write_text(ragged)
    assert run("validate", "d.csv", "--column", "success", *MODEL).code


def test_what_the_model_takes_is_told_without_a_mechanism(run, words):
    ran = run("validate", words, "--columns", "x,age", *MODEL)
    assert "error: the model takes one column: give --column C" in ran.err


@pytest.mark.parametrize("number", ["inf", "-inf", "infinity", "1e999"])
def test_text_is_not_mapped_to_infinity(run, words, number):
    ran = run("validate", words, "--column", "x", *MODEL, "--map", f"yes={number},no=0")
    assert ran.code == 2
    assert f"expected finite numbers such as yes=1,no=0, got 'yes={number}'" in ran.err
