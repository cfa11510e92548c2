"""Numbers of examples of property tests: some in `make test`, always the same, and many in `make test-long`, at random.

A property test whose examples take less than 10 ms runs `EXAMPLES` of them in `make test` without saying so. One whose
examples take longer says how many it runs: `@examples(8)` above `@given`. The long lane runs `THOROUGH` of each.
"""

from hypothesis import HealthCheck, Phase, settings

EXAMPLES = 25
THOROUGH = 500

settings.register_profile(
    "test",
    derandomize=True,
    deadline=None,
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile(
    "thorough", parent=settings.get_profile("test"), derandomize=False, max_examples=THOROUGH, print_blob=True
)


def examples(number: int) -> settings:
    """Return the settings of a property test that runs this many examples in `make test`."""
    return settings(max_examples=max(number, settings().max_examples if is_thorough() else 0))


def is_thorough() -> bool:
    """Return True in the long lane."""
    return settings().max_examples == THOROUGH
