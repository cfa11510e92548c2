"""Where a program can be mutated, and what each mutation changes: a small list of operators on the syntax tree.

A mutation replaces a part of one line. Only numerical code is mutated: neither docstrings, messages of errors, checks
that only raise, annotations nor decorators, nor functions that produce text or figures.
"""

import ast
from dataclasses import dataclass

ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*")}
COMPARISONS = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}
BOOLEAN = {ast.And: ("and", "or"), ast.Or: ("or", "and")}
EXTREMA = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
LOGARITHMS = {"log": "log1p", "log1p": "log"}
# Functions that round their first argument, and functions that round what an operator gives.
ROUNDING = {"ceil", "floor", "nextafter", "_round_up", "round_up", "_up", "rounded_down", "float_up", "float_down"}
ROUNDED_OPERATORS = {"product_up": "*", "upper_product": "*", "lower_product": "*", "ratio_up": "/", "upper_sum": "+"}
# Functions whose result is text, a figure, or an example for the audits.
TEXT = {
    "__repr__", "_repr_html_", "__str__", "description", "descriptions", "examples", "quantity", "source", "statement",
    "summary", "_summary", "title",
}  # fmt: skip
TEXT_PARTS = ("text", "plot", "describe", "message", "refus")
# Files that hold only such functions.
TEXT_FILES = {"display.py", "examples.py", "notes.py", "refusal.py", "shown.py", "statement.py"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mutation of a source file.

    Parameters
    ----------
    kind : str
        The operator, such as "comparison".
    function : str
        The qualified name of the function or class around the line; empty at the top of the module.
    line : int
        The number of the line, from 1.
    before, after : str
        The line without and with the mutation, without white space at its ends.
    """

    kind: str
    function: str
    line: int
    before: str
    after: str


def mutations(source: str) -> list[Mutation]:
    """Return the mutations of a program in the order of its lines, each edit of a line once.

    Parameters
    ----------
    source : str
        The text of the program.

    Returns
    -------
    list of Mutation
        Those whose edit lies within one line. A few give a program that does not parse.
    """
    found = _Places(source)
    found.visit(ast.parse(source))
    return sorted(dict.fromkeys(found.mutations), key=lambda mutation: mutation.line)


class _Places(ast.NodeVisitor):
    """A walk over the syntax tree that collects mutations."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.names: list[str] = []
        self.mutations: list[Mutation] = []

    def _add(self, kind: str, line: int, start: int, end: int, replacement: str) -> None:
        """Add the mutation that replaces the bytes from start to end of a line."""
        text = self.lines[line - 1].encode()
        mutated = (text[:start] + replacement.encode() + text[end:]).decode()
        before = self.lines[line - 1].strip()
        self.mutations.append(Mutation(kind, ".".join(self.names), line, before, mutated.strip()))

    def _operator(self, kind: str, left: ast.expr, right: ast.expr, symbols: tuple[str, str]) -> None:
        """Add the mutation of the operator between two operands."""
        assert left.end_lineno is not None
        assert left.end_col_offset is not None
        for line in range(left.end_lineno, right.lineno + 1):
            text = self.lines[line - 1].encode()
            start = left.end_col_offset if line == left.end_lineno else 0
            end = right.col_offset if line == right.lineno else len(text)
            place = text[start:end].find(symbols[0].encode())
            if place >= 0 and b"#" not in text[start:end]:
                self._add(kind, line, start + place, start + place + len(symbols[0]), symbols[1])
                return

    def _replace(self, kind: str, node: ast.expr, replacement: str) -> None:
        """Add the mutation that replaces an expression of one line."""
        if node.lineno == node.end_lineno:
            assert node.end_col_offset is not None
            self._add(kind, node.lineno, node.col_offset, node.end_col_offset, replacement)

    def _text_of(self, node: ast.expr) -> str | None:
        """Return the text of an expression of one line."""
        if node.lineno != node.end_lineno:
            return None
        return self.lines[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()

    def _condition(self, test: ast.expr) -> None:
        """Add the mutation that negates a condition."""
        if (text := self._text_of(test)) is not None:
            self._replace("condition", test, f"(not ({text}))")

    def _named(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        self.names.append(node.name)
        for child in node.body:
            self.visit(child)
        self.names.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit the body, not the decorators."""
        self._named(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit defaults and body of a function that does not produce text."""
        if node.name in TEXT or any(part in node.name for part in TEXT_PARTS):
            return
        for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]:
            self.visit(default)
        self._named(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit the value, not the annotation."""
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave messages as they are."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave text as it is."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave assertions as they are."""

    def visit_If(self, node: ast.If) -> None:
        """Negate the condition, unless the body only raises or the branch is for the type checker."""
        if all(isinstance(child, ast.Raise) for child in node.body) or "TYPE_CHECKING" in ast.dump(node.test):
            for child in [*node.body, *node.orelse]:
                self.visit(child)
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negate the condition."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        """Negate the condition."""
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        """Negate the conditions."""
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace an operator of arithmetic."""
        if (symbols := ARITHMETIC.get(type(node.op))) and not _is_text(node.left) and not _is_text(node.right):
            self._operator("arithmetic", node.left, node.right, symbols)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Replace an operator of arithmetic."""
        if (symbols := ARITHMETIC.get(type(node.op))) and not _is_text(node.value):
            self._operator("arithmetic", node.target, node.value, symbols)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Move the boundary of a comparison."""
        operands = [node.left, *node.comparators]
        for left, right, operator in zip(operands, operands[1:], node.ops, strict=False):
            if symbols := COMPARISONS.get(type(operator)):
                self._operator("comparison", left, right, symbols)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Exchange `and` and `or`."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator("boolean", left, right, BOOLEAN[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Remove a minus."""
        if isinstance(node.op, ast.USub):
            self._add("minus", node.lineno, node.col_offset, node.col_offset + 1, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Multiply a float by 1 + 2^-3, and add 1 to an integer."""
        if type(node.value) is float and node.value:
            self._replace("constant", node, repr(node.value * (1 + 2**-3)))
        elif type(node.value) is int:
            self._replace("constant", node, str(node.value + 1))

    def visit_Call(self, node: ast.Call) -> None:
        """Exchange extrema and logarithms, and remove what rounds."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        end = node.func.end_col_offset
        assert node.func.end_lineno is not None
        assert end is not None
        for kind, others in (("extremum", EXTREMA), ("logarithm", LOGARITHMS)):
            if name in others and not (kind == "logarithm" and isinstance(node.func, ast.Name)):
                self._add(kind, node.func.end_lineno, end - len(name), end, others[name])
        arguments = [self._text_of(argument) for argument in node.args]
        if name in ROUNDING and arguments and arguments[0] is not None:
            self._replace("rounding", node, f"({arguments[0]})")
        if name in ROUNDED_OPERATORS and len(arguments) == 2 and None not in arguments:
            self._replace("rounding", node, f"(({arguments[0]}) {ROUNDED_OPERATORS[name]} ({arguments[1]}))")
        self.generic_visit(node)


def _is_text(node: ast.expr) -> bool:
    """Return True for an operand that is text or a display of a sequence."""
    literal = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return literal or isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple))
