"""`privsample reproduce`: figures by name."""

from pathlib import Path

import pytest

from privsample.simulations.experiments import NAMES, composed_draws


def test_the_list(run):
    ran = run("reproduce", "--list")
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines() if not line.startswith(" ")] == list(NAMES)
    assert "thesis Figure 7.2" in ran.out
    assert not Path("figures").exists()


def test_a_figure_its_sentence_and_its_paths(run, monkeypatch):
    monkeypatch.setattr(composed_draws, "DRAWS", [1])
    ran = run("reproduce", "composed-draws", "composed-draws", "--out", "new/folder")
    assert (ran.code, ran.err) == (0, "")
    assert "of the epsilon" in ran.out
    files = ["new/folder/composed-draws.png", "new/folder/composed-draws.csv"]
    assert ran.out.splitlines()[-2:] == [str(Path(file)) for file in files]
    assert ran.out.count("composed-draws.png") == 1
    assert sorted(path.name for path in Path("new/folder").iterdir()) == ["composed-draws.csv", "composed-draws.png"]


def test_all_of_them(run, monkeypatch):
    monkeypatch.setattr(composed_draws, "DRAWS", [1])
    monkeypatch.setattr("privsample.simulations.experiments.NAMES", {"composed-draws": NAMES["composed-draws"]})
    assert run("reproduce", "--all").code == 0
    assert Path("figures/composed-draws.csv").exists()


def test_unknown_names(run):
    ran = run("reproduce", "t-7.2", "t-9", "x")
    assert ran.code == 2
    assert "there is no experiment t-9, x; there are t-7.2, t-7.3" in ran.err
    assert not Path("figures").exists()


@pytest.mark.parametrize("words", [[], ["--all", "--list"], ["t-7.2", "--all"]])
def test_what_to_run_is_said_once(run, words):
    ran = run("reproduce", *words)
    assert ran.code == 2
    assert "give names of experiments, or --all, or --list" in ran.err


def test_a_folder_that_cannot_be_made_or_written(run, monkeypatch):
    Path("file").write_text("")
    ran = run("reproduce", "composed-draws", "--out", "file/below")
    assert ran.code == 2
    assert "--out: the folder file/below cannot be made" in ran.err
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *args: False)
        ran = run("reproduce", "composed-draws", "--out", "locked")
    assert ran.code == 2
    assert "--out: nothing can be written to locked" in ran.err


def test_a_file_that_cannot_be_written(run, monkeypatch):
    monkeypatch.setattr(composed_draws, "DRAWS", [1])
    Path("out/composed-draws.png").mkdir(parents=True)
    ran = run("reproduce", "composed-draws", "--out", "out")
    assert ran.code == 2
    assert "composed-draws could not be written to out" in ran.err
    assert [path.name for path in Path("out").iterdir()] == ["composed-draws.png"]
