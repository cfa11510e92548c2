"""`privsample verify`: certificates that are proved, refused or cannot be read."""

import json
import sys

import pytest

import privsample as ps
from tests.certified import without_digest

ACCOUNT = ps.LaplaceAccountant(sensitivity=1, scale=2)


def test_a_certificate_is_proved(run, tmp_path):
    ACCOUNT.certificate(epsilon=[0.25, 0.5], delta=[0.12, 0.0]).save(tmp_path / "claim.json")
    done = run("verify", tmp_path / "claim.json")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "proved: epsilon = 0.25, delta = 0.12 (the pairs have at most 0.117504)",
        "proved: epsilon = 0.5, delta = 0 (the pairs have at most 0)",
        'not checked: the text "about", which names the account, the neighbours and the assumptions',
    ]


def test_a_stronger_claim_is_refused(run, tmp_path):
    made = without_digest(ACCOUNT.certificate(epsilon=0.25, delta=0.12).text)
    made["claims"][0]["epsilon"] = "0.2"
    (tmp_path / "claim.json").write_text(json.dumps(made), encoding="utf-8")
    done = run("verify", tmp_path / "claim.json")
    assert (done.code, done.out) == (1, "")
    assert "case 1 does not prove the delta claimed at epsilon = 0.2: its pairs have 0.139292" in done.err


def test_an_altered_description_is_refused(run, tmp_path):
    made = json.loads(ACCOUNT.certificate(epsilon=0.5).text)
    made["about"]["account"] = "LaplaceAccountant(sensitivity=1, scale=50000)"
    (tmp_path / "claim.json").write_text(json.dumps(made), encoding="utf-8")
    done = run("verify", tmp_path / "claim.json")
    assert (done.code, done.out) == (1, "")
    assert "the certificate was altered: its digest is another one" in done.err


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00", b"[]", b'{"format": 1e5}', b" " * (1 << 24)])
def test_damaged_files_are_refused(run, tmp_path, content):
    (tmp_path / "claim.json").write_bytes(content)
    done = run("verify", tmp_path / "claim.json")
    assert (done.code, done.out) == (1, "")


def test_files_that_cannot_be_read(run, tmp_path):
    assert run("verify", tmp_path / "none.json").code == 2
    assert run("verify", tmp_path).code == 2
    assert run("verify").code == 2


def test_python_flint_is_named_if_it_is_missing(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flint", None)
    done = run("verify", tmp_path / "claim.json")
    assert done.code == 2
    assert "checking a certificate needs python-flint, which is not installed" in done.err


def test_a_file_with_a_release_is_told_from_a_certificate(run, tmp_path):
    ps.LaplaceMechanism(sensitivity=1, scale=2).release(3.0).save(tmp_path / "release.json")
    done = run("verify", tmp_path / "release.json")
    assert done.code == 1
    assert "this file holds a release, not a certificate" in done.err
