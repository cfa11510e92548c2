"""The page of experiments: every picture, sentence, command and table, by paper; the same whatever ran at once."""

import numpy as np
import pytest

from privsample.simulations.report.findings import Statement
from privsample.simulations.report.results import Result
from reproduction import NAMES, PAPERS, SHARED, experiment, paper
from reproduction.base import Experiment
from reproduction.gallery import gallery
from reproduction.running import reproduce

TWO = ("papernot-2", "balle-1a", "geumlek-7.2")


def made(name: str, *, wide: float, rows: int) -> Experiment:
    x = np.linspace(-1, 1, rows)
    return Experiment(
        name=name,
        title=f"<{name}> & its title",
        run=lambda: Result(
            columns={"a_long_name": x.tolist(), "count": list(range(rows)), "words": ["of & <few> words"] * rows},
            describe=lambda columns: Statement(f"The sentence of {name}.", ()),
            plot=lambda figure: figure.subplots().plot(x),
        ),
        size=(wide, 3.0),
    )


@pytest.fixture
def html(tmp_path, monkeypatch):
    sizes = {"papernot-2": (4.0, 5), "balle-1a": (9.0, 1000), "composed-draws": (4.0, 1)}
    fake = {name: made(name, wide=wide, rows=rows) for name, (wide, rows) in sizes.items()}
    monkeypatch.setattr("reproduction.running.experiment", fake.__getitem__)
    monkeypatch.setattr("reproduction.gallery.experiment", fake.__getitem__)
    return gallery(list(reproduce(list(fake), tmp_path)))


def test_everything_is_there_and_grouped_by_paper(html):
    order = [html.index(words) for words in (f'id="{name}"' for name in ("balle-1a", "papernot-2", "composed-draws"))]
    assert order == sorted(order)
    for name in ("balle-1a", "papernot-2", "composed-draws"):
        assert f'<a href="#{name}">' in html
        assert f"privsample reproduce {name}" in html
        assert html.count(f"The sentence of {name}.") == 1
        assert f'alt="&lt;{name}&gt; &amp; its title: figure' in html
        assert f"&lt;{name}&gt; &amp; its title" in html
    assert html.count("data:image/png;base64,") == 3
    assert "100 of 1,000 rows" in html
    assert html.count("<tr>") == 3 + 5 + 100 + 1
    assert "a long name" in html
    assert "<script" not in html
    assert html.count('class="swipe"') == 1
    assert html.count("<summary>Contents</summary>") == 1
    assert html.count('tabindex="0" role="region"') == 4  # what scrolls can be scrolled by keys: tables, a wide picture
    for group in (PAPERS["balle"], PAPERS["papernot"], PAPERS[""]):
        assert f'<h2 class="group">{group}</h2>' in html


@pytest.mark.browser
def test_a_phone_shows_it_without_scrolling_sideways(html, phone):
    assert phone(html) == (0, 3, 0, "")


def test_the_numbers_do_not_depend_on_how_many_run_at_once(tmp_path):
    alone, together = (list(reproduce(TWO, tmp_path / str(jobs), n_jobs=jobs)) for jobs in (1, 2))
    for one, other in zip(alone, together, strict=True):
        assert (one.name, one.sentence) == (other.name, other.sentence)
        assert one.numbers.read_bytes() == other.numbers.read_bytes()
        assert one.picture.read_bytes() == other.picture.read_bytes()


def test_pictures_are_light(tmp_path):
    (done,) = reproduce(["balle-1a"], tmp_path)
    assert done.picture.read_bytes()[25] == 3  # the colours stand in a table, one byte for a pixel


def test_another_process_may_write_the_same_file(tmp_path):
    (tmp_path / ".balle-1a.png").mkdir()
    (done,) = reproduce(["balle-1a"], tmp_path)
    assert done.picture.exists()


def test_what_cannot_be_written_is_named(tmp_path):
    (tmp_path / "balle-1a.png").mkdir()
    with pytest.raises(OSError, match="balle-1a could not be written to"):
        list(reproduce(["balle-1a"], tmp_path))
    with pytest.raises(ValueError, match="no experiment 'x'"):
        list(reproduce(["balle-1a", "x"], tmp_path))


def test_every_figure_of_the_thesis_on_profiles_has_a_name():
    assert {f"geumlek-7.{k}" for k in range(2, 9)} <= {*NAMES, *SHARED}
    assert experiment("geumlek-7.8") is experiment("geumlek-7.5")
    assert set(SHARED.values()) <= set(NAMES)
    assert paper("geumlek-7.2") == PAPERS["geumlek"]
    assert paper("composed-draws") == PAPERS[""]
