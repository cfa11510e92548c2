"""Many quick cases in one test: to start a test takes some 8 ms, which is more than most such cases take to run."""

from collections.abc import Callable, Iterable
from typing import Any


def in_one_test(cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of a check and its cases, tuples of arguments or single arguments; it names each case that fails.

    It runs all cases before it fails. For cases that take longer, `pytest.mark.parametrize` shows the time of each.
    """
    listed = [case if isinstance(case, tuple) else (case,) for case in cases]

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failures: list[Exception] = []
            for case in listed:
                try:
                    check(*case)
                except Exception as error:  # noqa: BLE001 - all are raised together below
                    error.add_note(f"The case is {case!r}.")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(listed)} cases fail", failures)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        return test

    return decorate
