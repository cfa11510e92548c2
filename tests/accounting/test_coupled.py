"""Both terms of advanced joint convexity: never below enumeration, and never above the bound by one coupling."""

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest

import privsample as ps
from privsample.accounting.subsampling.coupled import CoupledPair
from privsample.distributions.own_schemes import merged_couplings
from privsample.errors import NotCertified
from tests.accounting.sampled import EPSILONS
from tests.accounting.test_subsampling import hockey

ABOVE, ORDERS = EPSILONS[EPSILONS >= 0], np.array([1.5, 2.0, 8.0])
ROW = ps.TableSampling(n=5, samples=[(0, 1, 2), (2, 3, 4)], probabilities=(0.6, 0.4))
MANY = ps.TableSampling(n=6, samples=[(k, k + 1) for k in range(5)], probabilities=(0.4, 0.25, 0.2, 0.1, 0.05))
FEW = ps.TableSampling(n=4, samples=[(0, 1), (1, 2), (2, 3)])
TWO, THREE = ps.ReplaceOne(n=2), ps.ReplaceOne(n=3)


@dataclass(frozen=True, kw_only=True)
class OneCoupling(ps.Scheme):
    """A table whose parts are the larger tails of both couplings."""

    table: ps.TableSampling

    def draw(self, size, rng):
        return self.table.draw(size, rng)

    def conversions(self, base):
        return self.table.conversions(base)

    def parts(self, base, relation):
        return tuple(map(merged_couplings, self.table.parts(base, relation)))


@dataclass(frozen=True, kw_only=True)
class Stated(ps.CoupledScheme):
    """Three records in a row, stated by the distributions of the samples of two neighbouring datasets."""

    forward: bool = True

    def draw(self, size, rng):
        return rng.permutation(FEW.draw(size, rng))

    def conversions(self, base):
        return ((TWO, ps.ReplaceOne(n=4)),)

    def couplings(self, relation):
        third = 1 / 3
        law = {
            records: {(a, b): third, (b, c): third, (c, d): third}
            for records in ("abcd", "xbcd")
            for a, b, c, d in [records]
        }
        pair = law["abcd"], law["xbcd"]
        first, second = pair if self.forward else pair[::-1]
        return (ps.SampleCoupling(first=first, second=second),)


@pytest.mark.parametrize("table", [ROW, FEW])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_both_terms_are_at_most_the_larger_one(table, scale):
    size = len(table.samples[0])
    base = ps.LaplaceAccountant(sensitivity=1, scale=scale, relation=ps.ReplaceOne(n=size))
    both, one = (ps.SubsampledAccountant(base=base, scheme=each) for each in (table, OneCoupling(table=table)))
    delta, looser = both.delta(ABOVE), one.delta(ABOVE)
    assert isinstance(both.bounds.pairs[0], CoupledPair)
    assert (delta <= looser * (1 + 1e-12)).all()
    inside = (looser > 0) & (ABOVE > 0)
    assert (delta[inside] < looser[inside] * (1 - 1e-3)).any()
    assert (both.rdp(ORDERS) <= one.rdp(ORDERS) * (1 + 1e-3)).all()
    assert both.pure_epsilon <= one.pure_epsilon * (1 + 1e-12)
    assert (5 * both).epsilon(1e-3) <= (5 * one).epsilon(1e-3) * (1 + 1e-3)


def test_the_terms_are_those_of_the_theorem():
    """The first record of a row: weights 1 - β and β at t' = 1 + η(t - 1)."""
    base = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=TWO)
    account = ps.SubsampledAccountant(base=base, scheme=FEW)
    e = np.array([0.3, 0.8])
    worst = []
    for parts in FEW.parts(TWO, ps.ReplaceOne(n=4)):
        total = np.zeros_like(e)
        for part in parts:
            t = 1 + np.expm1(e) / part.rate
            factor = {"to_common": 1 - np.exp(e) / t, "between": np.exp(e) / t, None: 1.0}[part.coupling]
            total += part.rate * np.exp(part.log_weight) * factor * base.group(part.group or 1).delta(np.log(t))
        worst.append(total)
    assert account.delta(e) == pytest.approx(np.max(worst, axis=0), rel=1e-9)
    assert {part.coupling for part in parts} <= {"to_common", "between", None}


@pytest.mark.parametrize("table", [ROW, FEW])
@pytest.mark.parametrize("flip", [0.1, 0.3])
def test_all_datasets_of_randomized_records(table, flip):
    """A base that releases how many of the sampled bits are 1 after a flip of each; its groups are enumerated."""
    size = len(table.samples[0])
    base = ps.RandomizedResponseAccountant(log_odds=np.log(1 / flip - 1), categories=2, relation=ps.ReplaceOne(n=size))
    account = ps.SubsampledAccountant(base=base, scheme=table)
    chances = table.probabilities or [1 / len(table.samples)] * len(table.samples)
    delta, rdp = account.delta(EPSILONS), account.rdp(ORDERS)

    def released(bits):
        """The distribution of the flipped bits in the order of the sample, which reveals more than a random order."""
        found = np.ones(1)
        for bit in bits:
            found = np.outer(found, [1 - flip, flip] if bit == 0 else [flip, 1 - flip]).ravel()
        return found

    def run(data):
        orders = list(itertools.permutations(range(size)))
        return sum(
            p * released([data[sample[at]] for at in order]) / len(orders)
            for sample, p in zip(table.samples, chances, strict=True)
            for order in orders
        )

    nearest = 0.0
    for data in itertools.product([0, 1], repeat=table.n):
        for place in range(table.n):
            other = (*data[:place], 1 - data[place], *data[place + 1 :])
            p, q = run(data), run(other)
            truth = hockey(p, q, EPSILONS)
            assert (truth <= delta + 1e-12).all()
            divergence = np.log((p ** ORDERS[:, None] * q ** (1 - ORDERS[:, None])).sum(-1)) / (ORDERS - 1)
            assert (divergence <= rdp * (1 + 1e-9)).all()
            nearest = max(nearest, float(truth[EPSILONS == 0][0] / delta[EPSILONS == 0][0]))
    assert nearest > 0.2


def test_both_orders_of_a_stated_coupling_have_one_pair():
    base = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=TWO)
    ahead, back = (ps.SubsampledAccountant(base=base, scheme=Stated(forward=forward)) for forward in (True, False))
    assert ahead.delta(EPSILONS) == pytest.approx(back.delta(EPSILONS), rel=1e-12)
    assert (3 * ahead).epsilon(1e-3) == pytest.approx((3 * back).epsilon(1e-3), rel=1e-9)
    pairs = ahead.bounds.pairs
    assert all(pair.reverse() == pair for pair in pairs)


def test_an_infinity_mass_takes_one_coupling():
    base = ps.ApproximateAccountant(stated_epsilon=1.0, stated_delta=1e-3, relation=TWO)
    both, one = (ps.SubsampledAccountant(base=base, scheme=each) for each in (FEW, OneCoupling(table=FEW)))
    assert both.delta(ABOVE) == pytest.approx(one.delta(ABOVE), rel=1e-12)
    assert both.infinity_mass == one.infinity_mass
    added = ps.GaussianAccountant(sensitivity=1, noise_std=2)
    account = ps.SubsampledAccountant(base=added, scheme=FEW)
    assert not account.bounds.pairs[0].from_table
    assert np.isposinf(account.pure_epsilon)
    assert np.isfinite(account.epsilon(1e-5))


def test_many_worst_cases_keep_both_couplings():
    base = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=TWO)
    both, one = (ps.SubsampledAccountant(base=base, scheme=each) for each in (MANY, OneCoupling(table=MANY)))
    assert (both.delta(ABOVE) <= one.delta(ABOVE)).all()
    assert (both.delta(ABOVE) < 0.8 * one.delta(ABOVE)).any()


def test_certificates_state_the_larger_tails():
    """The bound with one coupling is certified, for one release and for several; a claim below it is refused."""
    base = ps.LaplaceAccountant(sensitivity=1, scale=1, relation=TWO)
    for times in (1, 2):
        both, one = (times * ps.SubsampledAccountant(base=base, scheme=s) for s in (FEW, OneCoupling(table=FEW)))
        looser = one.epsilon(1e-3) * 1.001
        ((_, delta),) = both.certificate(epsilon=looser, delta=1e-3).verify()
        assert delta <= 1e-3
        with pytest.raises(NotCertified, match="claim a larger epsilon or delta"):
            both.certificate(epsilon=both.epsilon(1e-3), delta=1e-3)
    (pair,) = ps.SubsampledAccountant(base=base, scheme=FEW).bounds.pairs
    assert pair.certified_pair()["kind"] == "maximum"


def test_wrong_couplings():
    part = ps.SamplingPart(rate=0.5, coupling="between")
    assert merged_couplings((part,)) == (replace(part, coupling=None),)
    for wrong in ("beyond", 1, ("between",)):
        with pytest.raises(ValueError, match="coupling must be 'to_common', 'between' or None"):
            ps.SamplingPart(rate=0.5, coupling=wrong)
