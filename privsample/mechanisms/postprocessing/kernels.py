"""A Markov kernel after a mechanism that releases codes."""

from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privsample._checks import FloatArray, flag, positive_integer
from privsample._value import cached, frozen_value, set_fields
from privsample.accounting.assumptions import drawing_assumptions
from privsample.accounting.postprocessing.kernels import KernelAccountant
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.distributions.steps.kernels import ExactRows, check_stochastic, kernel_power, sample_outcomes
from privsample.mechanisms.arguments import CommandLine
from privsample.mechanisms.base import Draws, Mechanism
from privsample.mechanisms.calibration import FreeParameter
from privsample.mechanisms.examples import Example
from privsample.mechanisms.neighbours import Neighbours
from privsample.mechanisms.postprocessing.convolution import PostProcessing
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.selection.repetition import check_mechanism_type
from privsample.relations import ReplaceOne

_MOST_STEPS = 1 << 20


def _iterated(steps: float, fields: Mapping[str, Any]) -> FloatArray:
    return kernel_power(check_stochastic(fields["matrix"]), int(steps))


@frozen_value
class MarkovKernel(PostProcessing):
    """A Markov kernel on the codes that `base` releases: each code moves independently by its row of `matrix`.

    The base releases codes 0, ..., K-1, of which a neighbour changes one, and its `code_count` is K:
    RandomizedResponse, a mechanism for profiles, or another kernel. A mechanism that samples records goes outside:
    `Subsampled(base=MarkovKernel(...), ...)`. `release` takes the base's data, and draws the base's names. `calibrate`
    finds the least number of steps of the kernel `matrix` that meets the target.

    Parameters
    ----------
    base : Mechanism
        The inner mechanism, whose data `release` takes.
    matrix : numpy.ndarray of float
        Transition probabilities, shape (K, outcomes), >= 0, each row with sum 1 up to 1e-9. A row is divided by its
        sum, for the draws as for the account.
    exact : bool, default True
        Whether outcomes are drawn exactly: the entries of a row are rational numbers, and they are divided by their
        exact sum. False draws with floating-point numbers, and the account then assumes IDEAL_REALS.

    Raises
    ------
    TypeError
        If the base does not release codes.
    ValueError
        If the matrix is not stochastic, or does not have K rows.

    Notes
    -----
    Balle, Barthe, Gaboardi and Geumlek 2019, Theorem 1 (mixing). Kind: exact if the base's distributions are known,
    else upper bound.

    Examples
    --------
    >>> import privsample as ps
    >>> base = ps.RandomizedResponse(log_odds=2.0, relation=ps.ReplaceOne(n=3))
    >>> mechanism = ps.MarkovKernel(base=base, matrix=[[0.7, 0.3], [0.2, 0.8]])
    >>> round(float(mechanism.accountant.epsilon(0.0)), 3)
    0.903
    >>> round(float(mechanism.after(2).accountant.epsilon(0.0)), 3)
    0.456
    """

    base: Mechanism
    matrix: FloatArray
    exact: bool = True
    free_parameters = (
        FreeParameter(
            name="steps",
            direction="fewest",
            upper=_MOST_STEPS,
            decides="matrix",
            from_field=True,
            value=_iterated,
            advice="the kernel does not mix enough",
        ),
    )
    _account: KernelAccountant = field(init=False, repr=False, compare=False)
    command = CommandLine(help={"matrix": "one row of probabilities for each code, e.g. 0.7,0.3;0.2,0.8"})

    def __post_init__(self) -> None:
        check_mechanism_type(self.base)
        count = self.base.code_count()
        set_fields(self, exact=flag(exact=self.exact))
        account = KernelAccountant(
            base=self.base.accountant, matrix=self.matrix, assumptions=drawing_assumptions(exact=self.exact)
        )
        if len(account.matrix) != count:
            raise ValueError(
                f"matrix must have one row for each of the base's {count} codes, got {len(account.matrix)}"
            )
        set_fields(self, matrix=account.matrix, _account=account)

    @property
    def accountant(self) -> KernelAccountant:
        """The account of the codes after the kernel."""
        return self._account

    @property
    def constants(self) -> MixingConstants:
        """The kernel's mixing constants."""
        return self._account.constants

    def code_count(self) -> int:
        """The number of outcomes."""
        return int(self.matrix.shape[1])

    @property
    def quantity(self) -> str:
        """The label "code after the kernel"."""
        return "code after the kernel"

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """An example, and a mutant whose kernel changes codes half as often as stated."""
        matrix = np.array([[0.7, 0.3], [0.2, 0.8]])
        example = cls(base=RandomizedResponse(log_odds=1.0, relation=ReplaceOne(n=1)), matrix=matrix)
        bug = "it moves codes half as often as stated"
        return (Example.with_wrong_fields("markov-kernel", example, matrix=(matrix + np.eye(2)) / 2, bug=bug),)

    def worst_neighbours(self, group: int = 1) -> tuple[Neighbours, ...]:
        """The innermost base's pair that the kernels leave most different."""
        group = positive_integer(group=group)
        return self.worst_neighbours_through(self, (), group)

    def worst_neighbours_through(
        self, outer: Mechanism, kernels: tuple[FloatArray, ...], group: int
    ) -> tuple[Neighbours, ...]:
        """The base's worst neighbours, with this kernel applied first."""
        return self.base.worst_neighbours_through(outer, (self.matrix, *kernels), group)

    def after(self, steps: int) -> Self:
        """The same mechanism with several steps of the kernel in place of one.

        Parameters
        ----------
        steps : int
            Number of steps, >= 1; the matrix must be square.

        Returns
        -------
        MarkovKernel
            The mechanism whose matrix is the power `matrix^steps`.
        """
        return replace(self, matrix=kernel_power(self.matrix, steps))

    def _step(self, draws: Draws, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
        sample = self._rows.draw if self.exact else partial(sample_outcomes, self.matrix)
        return {name: sample(states, rng) for name, states in draws.items()}

    @cached
    def _rows(self) -> ExactRows:
        """The rows as distributions that are drawn exactly."""
        return ExactRows(self.matrix)
