"""The figures of thesis chapter 7: their shapes, what they must show, and the files they leave."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from privsample.mechanisms.profiles import LocalResponse, SmoothCategorical, SmoothOneBit
from privsample.simulations import profile_figures
from privsample.simulations.profile_figures import STAND_IN, Curves, categorical, chain, couplet, main, table

FEW = np.array([0.05, 0.2, 1.0, 3.0])


def test_couplet_rises_and_stays_below_local_privacy():
    curves = couplet()
    local, one, smooth = curves.values.T
    assert local == pytest.approx(1 / (1 + np.e))
    assert np.all(np.diff(one) >= -1e-12)
    assert np.all(smooth <= one + 1e-8)
    assert np.all(one <= local + 1e-10)
    assert smooth[0] == 0


def test_stand_in_profiles_make_the_baseline_fall_together():
    assert np.allclose(np.sum(list(STAND_IN.values()), axis=1), 1)
    local, ours = (categorical(made, "t", FEW) for made in (LocalResponse, SmoothCategorical))
    assert np.allclose(local.values, local.values[:, :1], atol=1e-9)
    informative, other = ours.values[:, :2], ours.values[:, 2:]
    assert np.all(other <= informative.max(axis=1, keepdims=True) + 1e-12)
    assert np.all(ours.values[1:] < local.values[1:])
    assert np.all(other[:3] < 0.3 * local.values[:3, :2].max())


@pytest.mark.parametrize("count", [6, 21])
def test_chains_spread_wider_than_under_local_privacy(count):
    local, ours = (chain(made, count, "t", FEW) for made in (LocalResponse, SmoothOneBit))
    spread = [curves.values[:, -1] - curves.values[:, 0] for curves in (local, ours)]
    assert spread[0] == pytest.approx(np.tanh(FEW / 2), abs=1e-8)
    assert np.all(spread[1] > spread[0])
    assert np.allclose(ours.values + ours.values[:, ::-1], 1, atol=1e-6)
    assert np.all(np.diff(ours.values, axis=1) > -1e-9)


def test_files(tmp_path, monkeypatch, capsys):
    few = profile_figures.figures(FEW)
    monkeypatch.setattr(profile_figures, "figures", lambda: few)
    assert main([str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        f"{name}{ending}" for name in few for ending in (".csv", ".png")
    )
    assert (tmp_path / "new" / "figure-7.2.png").read_bytes()[:4] == b"\x89PNG"
    assert "figure-7.2.png" in capsys.readouterr().out
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_tables_hold_every_point():
    curves = Curves(
        title="t", across="x", along="y", x=np.array([1.0, 2.0]), labels=("a",), values=np.array([[3.0], [4]])
    )
    assert table((curves,)) == 'panel,curve,"x","y"\n"t","a",1,3\n"t","a",2,4\n'


def test_the_example_runs_and_profiles_save(tmp_path, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "profiles_by_role.py"))
    assert example["main"]([str(tmp_path)], runs=3) == 0
    assert (tmp_path / "errors.png").exists()
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert len(lines) == 7
    errors = np.array([[float(x) for x in line.split(",")[1:4]] for line in lines[1:]])
    assert np.all(errors[:, 0] < errors[:, 1:].min(axis=1))
    assert "total variation" in capsys.readouterr().out
    assert example["main"]([]) == 2
    assert example["proper"](np.array([0.7, 0.5, -0.2])) == pytest.approx([0.6, 0.4, 0.0])
