"""The examples of a page of the documentation: doctests in Markdown, each page by itself."""

import doctest
from typing import Any


def executed(name: str, text: str) -> tuple[dict[str, Any], str]:
    """Run the examples of a page. Returns: the names that they left, and what failed ('' if nothing)."""
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, name, 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
    return test.globs, "".join(report)
