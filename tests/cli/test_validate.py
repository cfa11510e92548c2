"""`privsample validate`: the curator's step."""

from pathlib import Path

import pytest

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]


def test_a_clean_file(run, clean):
    ran = run("validate", clean, "--column", "x", "--n", 500, *MODEL)
    assert (ran.code, ran.err) == (0, "")
    assert "500 records, each 0 or 1: no problems." in ran.out


def test_problems_are_counted_and_never_shown(run, dirty):
    ran = run("validate", dirty, "--column", "x", "--n", 500, *MODEL)
    assert ran.code == 1
    assert "For the curator only" in ran.out
    for words in ("count as 0", "count as the nearer of 0 and 1", "are rounded to the nearest whole number"):
        assert words in ran.out
    ran = run("validate", dirty, "--column", "x", "--n", 500, *MODEL, "--json")
    assert ran.code == 1
    assert ran.json["problems"] == {"missing": 1, "text": 0, "outside": 1, "fractional": 1}
    assert ran.json["for_the_curator_only"]


def test_a_bounded_column(run, dirty):
    words = ["--column", "x", "--n", 500, "--mechanism", "beta-query", "--prior", "2,2", "--json"]
    assert run("validate", dirty, *words, "--bounds", "0,1").json["problems"]["outside"] == 1
    ran = run("validate", dirty, *words)
    assert ran.code == 2
    assert "--mechanism beta-query needs --bounds" in ran.err


@pytest.mark.parametrize("n", [499, 501])
def test_the_wrong_n(run, clean, n):
    ran = run("validate", clean, "--column", "x", "--n", n, *MODEL)
    assert ran.code == 1
    assert f"n = {n} records were declared, the data hold 500" in ran.err
    assert ran.out == ""


QUOTES = {
    "opens": ["1,a"] * 10 + ['1,"a'] + ["1,a"] * 30,
    "opens and closes": ["1,a"] * 10 + ['1,"a'] + ["1,a"] * 20 + ['1,a"'] + ["1,a"] * 9,
    "two that open": ["1,a"] * 10 + ['1,"a'] + ["1,a"] * 20 + ['1,"a'] + ["1,a"] * 9,
    "an even number on the line": ["1,a"] * 10 + ['1,a"b,"c'] + ["1,a"] * 30,
    "last": ["1,a"] * 40 + ['1,"a'],
    "a long field": ["1,a"] * 10 + ['1,"a'] + ["1,a"] * 60_000,
}
PRIVATE = ["--column", "x", "--mechanism", "gaussian-sum", "--bounds", "0,1", "--relation", "add-remove"]
PAID = ["--epsilon", 1, "--delta", 1e-6, "--unit", "row"]


@pytest.mark.parametrize("case", QUOTES)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_stray_quotation_mark_cannot_hide_records(run, case, end):
    """One field of text would otherwise move a sum by all records behind it."""
    width = 3 if "even" in case else 2
    rows = [row if row.count(",") == width - 1 else f"{row},b" for row in QUOTES[case]]
    header = "x,z,y"[: 2 * width - 1]
    Path("d.csv").write_bytes(end.join([header, *rows, ""]).encode())
    line = next(place for place, row in enumerate(rows, start=2) if '"' in row)
    for words in (["validate", "d.csv", *PRIVATE], ["release", "d.csv", *PRIVATE, *PAID, "--out", "r.json"]):
        ran = run(*words)
        assert ran.code == 1
        assert "d.csv" in ran.err
        assert case == "last" or f"line {line} of d.csv" in ran.err
        assert not Path("r.json").exists()


def test_line_breaks_in_fields_are_read_if_they_are_declared(run):
    Path("d.csv").write_text('x,z\n1,"a\nb"\n0,c\n\n1,"d ""e"""\n', encoding="utf-8")
    ran = run("validate", "d.csv", *PRIVATE)
    assert ran.code == 1
    assert "line 2 of d.csv has a field that does not end on its line" in ran.err
    assert "give --multiline" in ran.err
    ran = run("validate", "d.csv", *PRIVATE, "--multiline")
    assert (ran.code, ran.err) == (0, "")
    assert "3 records" in ran.out
    assert run("validate", "d.csv", *PRIVATE, "--multiline", "--json").json["records"] == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("text", ["x\n1\n\n0\n1", 'x\n"1"\n\n0\n1\n', "x,z\n1,a\n\n0,é\n\n\n1,c\n\n1,"])
def test_the_number_of_records_is_stated(run, text, encoding):
    Path("d.csv").write_bytes(text.encode(encoding))
    words = [] if encoding.startswith("utf-8") else ["--encoding", encoding]
    ran = run("validate", "d.csv", *PRIVATE, *words, "--json")
    assert (ran.err, ran.json["records"]) == ("", 4)
