"""The main job, end to end, on fewer samples."""

import numpy as np
import pytest

from privsample.mechanisms.release import Release
from privsample.simulations.demo import run as demo
from privsample.simulations.demo.page import PUBLIC


# The accounts of four draws take most of the time of the page; with one draw each, it is written by the same code.
@pytest.mark.parametrize(("draws", "samples"), [(1, 1_000), pytest.param(4, 5_000, marks=pytest.mark.long)])
def test_the_demo_writes_a_page_and_its_draws(draws, samples, monkeypatch, tmp_path):
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "report.html").write_text("of an earlier run")
    monkeypatch.setattr(demo, "DRAWS", draws)
    summary = demo.run(folder, samples=samples)
    kept, text = Release.load(folder / "posterior.nc"), Release.load(folder / "release.json")
    assert kept == text
    assert kept["theta"].shape == (draws,)
    assert float(kept.account.epsilon(1e-6)) == pytest.approx(1.0, rel=1e-9)
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert html.count(PUBLIC) == 3
    assert html.index("<p class=") < html.index("<img") < html.index("<h3>")
    assert "VIOLATED" not in "".join(line.split(";")[0] for line in summary if "epsilon" in line)
    rows = (folder / "breast-cancer.csv").read_text().splitlines()
    assert rows[0] == "malignant,mean_radius"
    assert len(rows) == 570


def test_the_data_are_what_the_page_says():
    data = demo.load()
    assert data.malignant.sum() == 212
    assert data.radius.min() > 5
    assert data.radius.max() < 30
    assert np.bincount(data.cultivar.astype(int)).tolist() == [59, 71, 48]


def test_usage_and_errors_are_readable(capsys, tmp_path):
    assert demo.main([]) == 2
    assert "usage" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert demo.main([str(tmp_path / "file")]) == 1
    assert "could not run" in capsys.readouterr().err
