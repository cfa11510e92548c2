"""Checks that the authors of mechanisms and accountants run, also those of other packages."""

from privsample.testing.accounts import check_accountant as check_accountant
from privsample.testing.base import CheckedDistribution as CheckedDistribution
from privsample.testing.base import LawBroken as LawBroken
from privsample.testing.checks import check_mechanism as check_mechanism

__all__ = ["CheckedDistribution", "LawBroken", "check_accountant", "check_mechanism"]
