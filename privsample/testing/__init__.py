"""Checks for authors of mechanisms and accountants, in this package and in others."""

from privsample.testing.accounts import check_accountant as check_accountant
from privsample.testing.base import CheckedRequirement as CheckedRequirement
from privsample.testing.base import RequirementViolated as RequirementViolated
from privsample.testing.checks import check_mechanism as check_mechanism

__all__ = ["CheckedRequirement", "RequirementViolated", "check_accountant", "check_mechanism"]
