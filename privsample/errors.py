"""The errors that privsample raises beyond ValueError and TypeError."""


class SchemaError(ValueError):
    """The data do not have the public shape that the mechanism declares: type, column or number of records.

    Its message names public facts only: never a record, nor a number that depends on one.
    """


class RelationMismatch(ValueError):
    """Two guarantees speak of different neighbouring relations and cannot be added or compared."""


class UnreachableTarget(ValueError):
    """No value of the free parameter meets the target; the message says what would."""


class BudgetExceeded(RuntimeError):
    """A ledger refused to spend: the budget would not keep its promise. Nothing was spent or drawn."""


class NumericalFailure(ArithmeticError):
    """A computation gave a value that no exact computation could give; nothing is claimed."""


class PrivateContent(TypeError):
    """Something that depends on the data and was not paid for was handed to a writer, which refuses it."""


class NotRegistered(ValueError):
    """A class has no tag for files, or a file has a tag that no class is registered for; see `privsample.register`.

    Nothing was written, spent or drawn.
    """
