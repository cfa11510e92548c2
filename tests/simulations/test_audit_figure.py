"""The figure and table of audit results describe the outcomes."""

from privsample.simulations.audit.batch import run_audits
from privsample.simulations.audit.figure import _result


def test_the_sentence_counts_the_refuted_claims():
    names = ["laplace"]
    refuted = list(run_audits(names, seed=1, mutant=True))
    consistent = list(run_audits(names, seed=1))
    assert _result(refuted).sentence.startswith("1 of 1 claims were refuted.")
    assert _result(consistent).sentence.startswith("0 of 1 claims were refuted.")
