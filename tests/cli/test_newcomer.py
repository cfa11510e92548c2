"""What a newcomer does wrong: each message names what was wrong and what to do, and nothing is lost."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

MODEL = ["--n", "500", "--model", "beta-bernoulli", "--prior", "6,12"]
LIMIT = ["--epsilon", "1", "--delta", "1e-6"]
NOISE = ["--mechanism", "gaussian", "--sensitivity", "1", "--noise-std", "1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["account", *NOISE, "--noise-stdd", "1"], "account --mechanism gaussian --help); did you mean --noise-std?"),
        (["audit", "--lst"], "arguments: --lst (see privsample audit --help); did you mean --list?"),
        (["acount"], "did you mean account?"),
        (["ledger", "expot", "x"], "did you mean export?"),
        (["account", "--mechanism", "diffused", "--model", "beta-bernouli"], "did you mean beta-bernoulli?"),
        (["account", "--mechanism"], "--mechanism needs a name"),
        (["account", "--mechanism", "--n", "4"], "--mechanism needs a name"),
        (["compare", "--mechanism", "gaussian,,laplace", "--sensitivity", "1", *LIMIT], "expects names such as"),
        (["compare", "--mechanism", "gaussian,diffused", "--sensitivity", "1", *LIMIT], "diffused has a model"),
        (["ledger"], "see privsample ledger --help"),
    ],
)
def test_what_is_mistyped_is_answered_with_what_was_meant(run, words, said):
    ran = run(*words)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize("option", ["--out", "--report", "--public-data"])
def test_outputs_never_replace_what_is_read(run, option):
    Path("s.json").write_text("1.5")
    Path("s.html").symlink_to("s.json")
    outputs = {"--out": ["--out", "s.json"], "--report": ["--out", "r.json", "--report", "s.html"]}
    given = outputs.get(option, ["--out", "r.json", "--public-data", "s.json"])
    ran = run("release", "s.json", *NOISE, *given, "--force")
    assert ran.code == 2
    assert Path("s.json").read_text() == "1.5"
    if option != "--public-data":
        assert f"{option}: s.{'json' if option == '--out' else 'html'} is an input of this command" in ran.err


def test_statistics_that_are_no_file_are_told_as_what_they_are(run):
    Path("d.json").mkdir()
    assert "d.json cannot be opened: Is a directory" in run("release", "d.json", *NOISE, "--out", "r.json").err
    Path("rag.json").write_text("[[1, 2], [3]]")
    assert "nested lists of numbers of equal length" in run("release", "rag.json", *NOISE, "--out", "r.json").err
    assert "there is no file e.json" in run("release", "e.json", *NOISE, "--out", "r.json").err
    assert "invalid file name" in run("release", "e\0.json", *NOISE, "--out", "r.json").err


def test_a_ledger_that_cannot_be_exported_says_why(run):
    assert run("ledger", "init", "l.db", "--dataset", "trial", "--n", "500", *LIMIT).code == 0
    ran = run("ledger", "export", "l.db", "--out", "none/l.json")
    assert ran.code == 2
    assert "none/l.json cannot be opened or written: No such file or directory" in ran.err
    assert "Errno" not in ran.err


RUBBISH = {
    "binary": np.random.default_rng(0).bytes(5_000),
    "gzip of nothing": b"\x1f\x8b",
    "nothing": b"",
    "line ends": b"\n\n\r\n",
    "quotes": b'"""\n"',
    "a mark": b"\xef\xbb\xbf",
    "zeros": bytes(100),
    "separators": b",,,\n,,,\n",
    "header": b"x,y\n",
    "zip": b"PK\x03\x04" + bytes(40),
    "half a mark": b"\xff\xfe",
}
NAMES = ("d.csv", "d.csv.gz", "d.tsv.bz2", "d.txt.zst", "d.parquet", "d.feather", "d.json", "d.npy")


EXTRA = ([], ["--encoding", "utf-16"], ["--map", "a=1"], ["--separator", "tab"])


@pytest.mark.parametrize("name", NAMES)
def test_rubbish_is_refused_in_one_line(run, name):
    """Each option with each content of a text file; a file of another kind has none of them."""
    for content, written in RUBBISH.items():
        Path(name).write_bytes(written)
        for extra in EXTRA if name.startswith(("d.csv", "d.tsv", "d.txt")) else EXTRA[:1]:
            words = ["release", name, "--column", "x", *MODEL, "--mechanism", "diffused", *LIMIT, *extra]
            assert run(*words, "--out", "r.json").code in (1, 2), content  # `run` finds no traceback, and no defect
        if name in ("d.json", "d.npy"):
            assert run("release", name, *NOISE, "--out", "r.json").code in (1, 2), content
        assert not Path("r.json").exists()


BOTH = """
import sys
from privsample.cli import main
words = sys.argv[1:]
sys.exit(main(words))
"""


def test_two_processes_share_a_ledger_and_never_spend_more_than_it_holds(run):
    assert run("ledger", "init", "l.db", "--dataset", "trial", "--n", "500", "--epsilon", "1", "--delta", "0").code == 0
    words = ["ledger", "spend", "l.db", "--pure", "0.4", "--label", "elsewhere"]
    works = [
        subprocess.Popen([sys.executable, "-c", BOTH, *words], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    ends = [(work.communicate()[1], work.returncode) for work in works]
    assert sorted(code for _, code in ends) == [0, 0, 2]
    assert all("privsample: error: " in said and "Traceback" not in said for said, code in ends if code)
