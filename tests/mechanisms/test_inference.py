"""Draws made of a private release: what they carry, and what is refused."""

import json

import numpy as np
import pytest

from privsample import CuratorNotes, GaussianAccountant, PosteriorDraws
from privsample.errors import PrivateContent
from privsample.interop.arviz import read_netcdf

ACCOUNT = GaussianAccountant(sensitivity=1, noise_std=1)
FIELDS = {"draws": {"theta": np.arange(6.0)}, "account": ACCOUNT, "method": "exact"}


def test_chains_go_to_arviz_one_by_one():
    made = PosteriorDraws(**{**FIELDS, "chains": 2})
    tree = made.to_arviz()
    assert tree.posterior["theta"].values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tree.posterior.attrs["privsample_method"] == "exact"
    assert "GaussianAccountant" in tree.posterior.attrs["privsample_account"]
    assert not made["theta"].flags.writeable
    assert made == PosteriorDraws(**{**FIELDS, "chains": 2})
    assert "factor" in made.statement()


def test_saved_draws_keep_account_and_method(tmp_path):
    made = PosteriorDraws(**{**FIELDS, "chains": 2})
    made.save(tmp_path / "draws.nc")
    draws, attributes = read_netcdf(tmp_path / "draws.nc")
    assert draws["theta"].tolist() == made["theta"].tolist()
    assert attributes["privsample_method"] == "exact"
    assert json.loads(attributes["privsample_account"]) == ACCOUNT.to_dict()
    with pytest.raises(FileExistsError):
        made.save(tmp_path / "draws.nc")
    with pytest.raises(ValueError, match=r"\.nc"):
        made.save(tmp_path / "draws.json")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"chains": 4}, "4 chains"),
        ({"chains": 0}, "chains"),
        ({"method": ""}, "method"),
        ({"draws": {"theta": 3.0}}, "theta"),
        ({"draws": {"theta": ["a"]}}, "theta"),
    ],
)
def test_bad_draws_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        PosteriorDraws(**{**FIELDS, **changed})


def test_notes_are_refused():
    with pytest.raises(PrivateContent):
        PosteriorDraws(**{**FIELDS, "draws": {"theta": CuratorNotes(title="t", facts={})}})
