"""The errors and warnings that privsample raises beyond ValueError and TypeError."""


class SchemaError(ValueError):
    """The data do not have the public shape that the mechanism declares: type, column or number of records.

    The message contains public facts only: no record, and no number that depends on a record.
    """


class RelationMismatch(ValueError):
    """Two guarantees hold under different neighbouring relations and cannot be composed or compared."""


class UnreachableTarget(ValueError):
    """No value of the free parameter meets the target; the message says what would meet it."""


class BudgetExceeded(RuntimeError):
    """A ledger refused an expense that would exceed its budget. Nothing was spent and nothing was drawn.

    `command_line` is the message with advice for the command line, where it differs.
    """

    command_line: str | None = None


class LargeDeltaWarning(UserWarning):
    """A target has delta >= 1/n, which does not exclude that one random record of the n is published in clear."""


class ShortChainWarning(UserWarning):
    """Markov chains may stay near their start: public numbers do not ensure that they come close to the posterior."""


class TooFewGuessesWarning(UserWarning):
    """A one-run audit makes so few guesses that it cannot refute its claim, even if all of them are right."""


class NotCertified(ValueError):
    """No certificate is known for a part of the account, or its pairs do not prove the claim; the message says why."""


class NumericalFailure(ArithmeticError):
    """A computation returned a value that exact arithmetic could not return; no guarantee is stated."""


class PrivateContent(TypeError):
    """A data-dependent value without privacy accounting was passed to a writer, which refuses it."""


class NotRegistered(ValueError):
    """A class has no tag for files, or no class is registered for the tag in a file; see `privsample.register`.

    Nothing was written, spent or drawn.
    """
