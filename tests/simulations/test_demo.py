"""The main job, end to end, on fewer samples."""

import numpy as np
import pytest

from privsample.mechanisms.release import Release
from privsample.simulations.demo import run as demo
from privsample.simulations.demo.page import PUBLIC


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new") / "demo"
    folder.mkdir()
    (folder / "report.html").write_text("of an earlier run")
    return folder, demo.run(folder, samples=5_000)


def test_the_demo_writes_a_page_and_its_draws(written):
    folder, summary = written
    kept, text = Release.load(folder / "posterior.nc"), Release.load(folder / "release.json")
    assert kept == text
    assert kept["theta"].shape == (4,)
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
