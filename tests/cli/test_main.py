"""The program as a process: help, exit codes, interrupts."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import privsample.cli
from privsample._version import __version__
from privsample.cli import main
from privsample.cli.output import growth, plain, round_up

MODEL = ["--model", "beta-bernoulli", "--prior", "6,12"]
ROOT = Path(privsample.cli.__file__).parents[2]
PROGRAM = [sys.executable, "-m", "privsample"]


def start(*words, **settings):
    return subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, **settings)


@pytest.mark.parametrize("command", [[], *([name] for name in privsample.cli._COMMANDS)])
@pytest.mark.parametrize("width", [80, 100])
def test_help_fits_and_has_an_example(run, command, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    ran = run(*command, "--help")
    assert ran.code == 0
    assert "\nexample: " in ran.out or "\nexample:\n" in ran.out
    assert max(map(len, ran.out.splitlines())) <= width


def test_examples_in_the_help_parse():
    for name in privsample.cli._COMMANDS:
        text = vars(sys.modules[f"privsample.cli.{name}"])["EXAMPLE"].split("\n\n")[0]
        _, _, lines = text.replace("\\\n", " ").partition("\n")
        for line in lines.splitlines():
            first, *words = shlex.split(line)
            assert first == "privsample"
            assert privsample.cli._parser().parse_args(words).command == name


def test_version_and_no_command(run, capsys):
    assert run("--version").out == f"privsample {__version__}\n"
    assert main([]) == 2
    assert "example" in capsys.readouterr().out


def test_the_process(clean):
    ran = start("validate", clean, "--column", "x", "--n", 500, *MODEL, "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = start("validate", clean, "--column", "x", "--n", 5, *MODEL)
    assert ran.returncode == 1
    assert ran.stderr.startswith("privsample: error: n = 5 records were declared")
    assert start("account").returncode == 2


def test_an_ascii_terminal_and_a_closed_pipe():
    words = ["account", "--n", "9", *MODEL, "--mechanism", "diffused", "--data-weight", ".5", "--unit", "Zürcher"]
    ran = start(*words, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert ran.returncode == 0
    assert "Z\\xfcrcher" in ran.stdout
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_reading(tmp_path):
    file = tmp_path / "long.csv"
    file.write_text("x\n" + "1\n0\n" * 10_000_000)
    words = [
        "release",
        file,
        "--column",
        "x",
        "--n",
        20_000_000,
        *MODEL,
        "--mechanism",
        "diffused",
        "--data-weight",
        ".5",
    ]
    out = tmp_path / "r.json"
    command = [*PROGRAM, *map(str, [*words, "--out", out, "--progress"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while b"checking" not in process.stderr.read1(100):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (
        errors.decode()
        .splitlines()[-1]
        .endswith("privsample: error: interrupted; every output file that exists is complete")
    )
    assert b"Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["long.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_during_an_import_is_no_defect(capsys, monkeypatch):
    """An extension module whose import is stopped raises ImportError, with or without its cause."""

    def stopped(name):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("the extension could not be imported") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of pytest-xdist ignore it
    try:
        monkeypatch.setattr("privsample.cli.import_module", stopped)
        assert main(["mechanisms"]) == 130
        assert capsys.readouterr().err == "privsample: error: interrupted; every output file that exists is complete\n"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)

    def broken(name):
        raise ImportError("the extension could not be imported")

    monkeypatch.setattr("privsample.cli.import_module", broken)
    assert main(["mechanisms"]) == 2  # without Ctrl-C it is one
    assert "ImportError inside privsample" in capsys.readouterr().err
    results = []
    thread = threading.Thread(target=lambda: results.append(main(["mechanisms"])))  # which cannot handle signals
    thread.start()
    thread.join()
    assert results == [2]


def test_a_closed_standard_error_changes_nothing(clean, monkeypatch, capsys):
    words = ["release", clean, "--column", "x", "--n", "500", *MODEL, "--mechanism", "diffused", "--data-weight", ".5"]
    monkeypatch.setattr("sys.stderr", None)
    assert main([*words, "--out", "r.json"]) == 0
    sys.stderr.close()
    assert "bug" not in capsys.readouterr().out
    assert json.loads(Path("r.json").read_text())["mechanism"]["type"][1] == "DiffusedPosterior"


@pytest.mark.skipif(sys.platform == "win32", reason="closed descriptors")
def test_files_do_not_get_the_number_of_a_closed_standard_error(tmp_path):
    """Nor that of standard input: what other libraries print would be written to them."""
    program = "import os, privsample.cli as c; c._open_standard_error(); print(os.open('f', os.O_CREAT | os.O_WRONLY))"
    ran = subprocess.run(
        ["sh", "-c", f"{shlex.join([sys.executable, '-c', program])} <&- 2>&-"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) > 2


def test_errors_without_a_standard_error_are_discarded(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    assert main(["mechanisms", "--no-such-option"]) == 2
    sys.stderr.close()
    assert capsys.readouterr().out == ""


def test_a_defect_shows_no_record(capsys, monkeypatch, clean):
    def broken(*args, **settings):
        raise ValueError("Zaphod has 987654321012.25")

    monkeypatch.setattr("privsample.distributions.models.base.chunks", broken)
    assert main(["validate", clean, "--column", "x", "--n", "500", *MODEL]) == 2
    printed = capsys.readouterr()
    assert "Zaphod" not in printed.out + printed.err
    assert "ValueError inside privsample" in printed.err


def test_numbers_for_people_and_machines():
    assert [round_up(x) for x in (0.0, 1.0, 1.00001, 0.123451, 1234567.0)] == ["0", "1", "1.001", "0.1235", "1.235e+06"]
    assert round_up(float("inf")) == "none"
    assert [growth(x) for x in (0.0, 1.0, 100.0, float("inf"))] == [
        "at most x 1", "at most x 2.72", "more than x 1e13", "no guarantee",
    ]  # fmt: skip
    assert plain({"a": (float("inf"), float("nan"))}) == {"a": ["inf", "nan"]}


@pytest.mark.parametrize("words", [["reproduce"], ["ledger", "show", "budget"]])
def test_an_unknown_option_points_to_the_help_that_lists_the_known_ones(run, words):
    ran = run(*words, "--lst")
    assert ran.code == 2
    command = " ".join(words[:2])
    assert f"unrecognized arguments: --lst (see privsample {command} --help)" in ran.err
