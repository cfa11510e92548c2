"""The examples of a page of the documentation: doctests in Markdown, each page by itself."""

import doctest
import re
from typing import Any

_PICTURE = re.compile(r"^```\{picture\} (.*)$", re.MULTILINE)


def executed(name: str, text: str) -> tuple[dict[str, Any], str]:
    """Run the examples of a page. Return the names that they left, and the failures ('' if there are none)."""
    names, _, failed = executed_with_pictures(name, text, {})
    return names, failed


def executed_with_pictures(name: str, text: str, beside: dict[str, Any]) -> tuple[dict[str, Any], list[Any], str]:
    """Run the examples of a page, and evaluate the expression of each picture where it stands.

    Parameters
    ----------
    name : str
        Name of the page in messages.
    text : str
        The page in Markdown.
    beside : dict
        Names that the expressions of pictures may use, in addition to those of the examples.

    Returns
    -------
    names : dict
        The names that the examples left.
    pictures : list
        The value of each picture, or the exception that its expression raised.
    failed : str
        The report on failed examples, '' if there are none.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    pictures: list[Any] = []
    report: list[str] = []
    start = 0
    for expression in [*_PICTURE.finditer(text), None]:
        end = expression.start() if expression else len(text)
        test = doctest.DocTestParser().get_doctest(text[start:end], names, name, name, text.count("\n", 0, start))
        doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
        names, start = test.globs, end
        if expression:
            try:
                pictures.append(eval(expression[1], names | beside))  # the page's own code, like its examples
            except Exception as error:  # noqa: BLE001 - the directive reports it with the page and the line
                pictures.append(error)
    return names, pictures, "".join(report)
