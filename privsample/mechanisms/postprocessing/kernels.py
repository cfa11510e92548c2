"""A Markov kernel after a mechanism that releases codes."""

from dataclasses import field, replace
from functools import singledispatch
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privsample._checks import FloatArray
from privsample._value import put, value
from privsample.accounting.postprocessing.kernels import KernelAccountant
from privsample.accounting.postprocessing.mixing import MixingConstants
from privsample.accounting.targets import Target, unreachable
from privsample.distributions.steps.kernels import drawn, iterated
from privsample.mechanisms.base import Mechanism
from privsample.mechanisms.postprocessing.convolution import Draws, PostProcessing
from privsample.mechanisms.profiles.base import ProfileMechanism
from privsample.mechanisms.randomized import RandomizedResponse
from privsample.mechanisms.selection.repetition import checked_mechanism

_MOST_STEPS = 1 << 20


@value
class MarkovKernel(PostProcessing):
    """Every code that `base` releases goes to an outcome by its row of `matrix`, (codes, outcomes), independently.

    The base releases codes 0, ..., K-1 of which a neighbour changes one: RandomizedResponse, a mechanism for profiles,
    another kernel. What samples the records goes outside: Subsampled(base=MarkovKernel(...), ...).
    """

    base: Mechanism
    matrix: FloatArray
    _account: KernelAccountant = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checked_mechanism(self.base)
        count = codes(self.base)
        account = KernelAccountant(base=self.base.accountant, matrix=self.matrix)
        if len(account.matrix) != count:
            raise ValueError(
                f"matrix must have one row for each of the base's {count} codes, got {len(account.matrix)}"
            )
        put(self, matrix=account.matrix, _account=account)

    @property
    def accountant(self) -> KernelAccountant:
        """The account of the base, behind the kernel."""
        return self._account

    @property
    def constants(self) -> MixingConstants:
        """The kernel's mixing constants."""
        return self._account.constants

    def after(self, steps: int) -> Self:
        """The same with `steps` steps of the kernel in place of one."""
        return replace(self, matrix=iterated(self.matrix, steps))

    def _step(self, draws: Draws, source: np.random.Generator) -> dict[str, NDArray[Any]]:
        return {name: drawn(self.matrix, states, source) for name, states in draws.items()}

    @classmethod
    def calibrate(cls, *, base: Mechanism, matrix: ArrayLike, target: Target) -> Self:
        """The fewest steps of a kernel, at least one, that meet the target. Raises: UnreachableTarget."""
        one = cls(base=base, matrix=matrix)  # type: ignore[arg-type]
        failed, steps = 0, 1
        while not target.met_by(one.after(steps).accountant):
            if steps >= _MOST_STEPS:
                raise unreachable(target, one.after(steps).accountant, "the kernel does not forget enough")
            failed, steps = steps, 2 * steps
        while steps - failed > 1:
            middle = (failed + steps) // 2
            failed, steps = (failed, middle) if target.met_by(one.after(middle).accountant) else (middle, steps)
        return one.after(steps)


@singledispatch
def codes(mechanism: Mechanism) -> int:
    """How many codes there are of which a neighbour changes one. Raises: TypeError, ValueError, where that is not so.

    A user's own mechanism with this promise may be registered, codes.register: its codes must be independent.
    """
    raise TypeError(
        f"a kernel takes codes of which a neighbour changes one, and {type(mechanism).__name__} does not promise such; "
        "where it samples records, put the kernel inside: Subsampled(base=MarkovKernel(...), ...)"
    )


@codes.register
def _(mechanism: RandomizedResponse) -> int:
    return mechanism.categories


@codes.register
def _(mechanism: ProfileMechanism) -> int:
    if mechanism.observations != 1:
        raise ValueError(f"a kernel takes one observation of each source, got observations={mechanism.observations}")
    return mechanism.graph.symbols


@codes.register
def _(mechanism: MarkovKernel) -> int:
    return mechanism.matrix.shape[1]
