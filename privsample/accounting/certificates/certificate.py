"""Certificates of accounts: what a stranger needs to check a claimed (epsilon, delta) without this library."""

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from privsample._checks import FloatArray, real_array
from privsample._value import frozen_value
from privsample.accounting.certificates.cases import Claim, document, proved_cases
from privsample.accounting.loss.exact import rounded_up
from privsample.errors import NotCertified

if TYPE_CHECKING:
    from privsample.accounting.base import Accountant

_DIGITS = 4  # of a claimed number that is chosen here


@frozen_value
class Certificate:
    """A file that proves claimed (epsilon, delta) from pairs of output distributions.

    The text is JSON. It names every pair of distributions that dominates two neighbours, with exact rational
    parameters, how the releases compose, and the claims. `privsample verify FILE`, or the single file
    `privsample/verify.py` with python-flint, checks it by ball arithmetic and uses nothing else of this library.

    Parameters
    ----------
    text : str
        The content of the file.

    Raises
    ------
    TypeError
        If `text` is not a string.
    ValueError
        If the text is not a certificate.

    Notes
    -----
    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022 (discretization that dominates); Johansson 2017 (ball
    arithmetic); docs/notes/certificates.md. What a certificate leaves to trust: that the pairs are those of the
    mechanism, which the theorem of `account.source` proves.

    Examples
    --------
    >>> import privsample as ps
    >>> account = 3 * ps.GaussianAccountant(sensitivity=1, noise_std=4)
    >>> certificate = account.certificate(delta=1e-6)
    >>> certificate.claims
    (('1.926', '1e-06'),)
    >>> [f"{epsilon:.4g}, {delta:.2e}" for epsilon, delta in certificate.verify()]
    ['1.926, 9.93e-07']
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"text must be the content of a certificate, got {type(self.text).__name__}")
        self._read()

    def _read(self) -> dict[str, Any]:
        """The parts of the certificate, as the checker reads them."""
        from privsample import verify

        try:
            return verify.read(self.text)
        except verify.Refused as refusal:
            raise ValueError(f"text must be a certificate: {refusal}") from None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claimed (epsilon, delta), exact numbers as text."""
        import json

        return tuple((claim["epsilon"], claim["delta"]) for claim in json.loads(self.text)["claims"])

    def verify(self) -> tuple[tuple[float, float], ...]:
        """Check every claim with the checker.

        Returns
        -------
        tuple of (float, float)
            Each claimed epsilon, and the delta that the pairs give there, which is at most the claimed one; both are
            rounded up to a double.

        Raises
        ------
        NotCertified
            If a claim is not proved.
        """
        from privsample import verify

        try:
            found = verify.verify(self.text)
        except verify.Refused as refusal:
            raise NotCertified(str(refusal)) from None
        return tuple((_least_double(epsilon), float(verify.above(value))) for epsilon, _, value in found)

    def to_json(self) -> str:
        """The content of the file.

        Returns
        -------
        str
            The text.
        """
        return self.text

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a certificate from its text, without checking its claims.

        Parameters
        ----------
        text : str
            The content of the file.

        Returns
        -------
        Certificate
            The certificate.

        Raises
        ------
        ValueError
            If the text is not a certificate.
        """
        return cls(text=text)

    def save(self, path: "str | Path") -> None:
        """Write the certificate to a file, for `privsample verify`.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced if it exists.
        """
        Path(path).write_text(self.text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: "str | Path") -> Self:
        """Read a certificate from a file, without checking its claims.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Certificate
            The certificate.

        Raises
        ------
        ValueError
            If the content is not a certificate.
        """
        return cls(text=Path(path).read_text(encoding="utf-8"))


def certify(account: "Accountant", epsilon: ArrayLike | None, delta: ArrayLike | None) -> Certificate:
    """The certificate of an account; a missing epsilon or delta is the account's, rounded up to four digits.

    If the grid of a composition cannot prove the rounded number, which may be next to the exact one, it is raised by
    a thousandth before it is rounded up.
    """
    if epsilon is not None and delta is not None:
        return _certified(account, _claims(account, epsilon, delta))
    try:
        return _certified(account, _claims(account, epsilon, delta))
    except NotCertified:
        raised = _claims(account, epsilon, delta, margin=1e-3)
        return _certified(account, raised)


def _certified(account: "Accountant", claims: tuple[Claim, ...]) -> Certificate:
    """The certificate of an account with these claims. Raises NotCertified."""
    try:
        cases = proved_cases(account.bounds, claims)
    except NotCertified as reason:
        raise NotCertified(f"{type(account).__name__} cannot be certified: {reason}") from None
    about = {
        "account": repr(account),
        "neighbours": account.relation.description,
        "assumptions": sorted(assumption.value for assumption in account.assumptions),
        "source": account.source,
    }
    return Certificate(text=document(claims, cases, about))


def _claims(
    account: "Accountant", epsilon: ArrayLike | None, delta: ArrayLike | None, *, margin: float = 0.0
) -> tuple[Claim, ...]:
    """The claims as exact text, a missing number raised by a relative margin. Raises ValueError and NotCertified."""
    if epsilon is None and delta is None:
        raise ValueError("a certificate needs epsilon, delta or both: certificate(delta=1e-6)")
    if epsilon is None:
        deltas = _checked(delta=delta)
        return tuple((_up(float(account.epsilon(d)) * (1.0 + margin), "epsilon"), repr(float(d))) for d in deltas)
    epsilons = _checked(epsilon=epsilon)
    if delta is None:
        return tuple(
            (repr(float(e)), _up(min(float(account.delta(e)) * (1.0 + margin), 1.0), "delta")) for e in epsilons
        )
    pairs = np.broadcast_arrays(epsilons, _checked(delta=delta))
    return tuple((repr(float(e)), repr(float(d))) for e, d in zip(*pairs, strict=True))


def _checked(**named: Any) -> FloatArray:
    """One argument as numbers of shape (claims,). Raises ValueError."""
    ((name, _),) = named.items()
    found = np.atleast_1d(real_array(**named)).ravel()
    top = 1.0 if name == "delta" else np.inf
    if not (found.size and np.all((found >= 0.0) & (found <= top) & np.isfinite(found))):
        raise ValueError(
            f"{name} must be finite and >= 0{', at most 1' if name == 'delta' else ''}, got {named[name]!r}"
        )
    return found


def _up(number: float, name: str) -> str:
    """The number rounded up to a short decimal. Raises NotCertified if it is infinite."""
    if not np.isfinite(number):
        raise NotCertified(f"the account has no finite {name} here, so that there is nothing to certify")
    return rounded_up(number, _DIGITS)


def _least_double(number: Fraction) -> float:
    """The smallest double that is at least a rational number."""
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else float(np.nextafter(nearest, np.inf))
