"""Files follow the umask of the process, but for tallies, which are as private as the data."""

import os

import pytest

import privsample as ps

SUM = ps.GaussianSum(bounds=(0, 1), noise_std=2)


@pytest.mark.skipif(os.name == "nt", reason="no modes of files")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o007, 0o660)])
def test_modes_follow_the_umask(mask, mode, tmp_path):
    before = os.umask(mask)
    try:
        SUM.release([1.0]).save(tmp_path / "r.json")
        SUM.tally([1.0]).save(tmp_path / "t.arrow")
    finally:
        os.umask(before)
    assert (tmp_path / "r.json").stat().st_mode & 0o777 == mode
    assert (tmp_path / "t.arrow").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"r.json", "t.arrow"}
