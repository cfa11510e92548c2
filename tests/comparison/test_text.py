"""How a comparison is shown: as text, as a card in notebooks, and as a plot."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

import privsample as ps


@pytest.fixture(scope="module")
def table():
    model, target = ps.BetaBernoulli(alpha=6, beta=12), ps.DP(epsilon=1, delta=1e-6)
    return ps.compare(model=model, n=100, target=target, simulations=10, plug_in=True, rng=np.random.default_rng(1))


def test_print_shows_what_the_command_line_prints(table, capsys):
    print(table)
    shown = capsys.readouterr().out
    flat = " ".join(shown.split())
    assert shown.startswith("epsilon 1 at delta 1e-06, one draw from n = 100 simulated records\n")
    assert table.statement.sentence in flat
    for row in table:
        assert row.name in shown
        if row.reason:
            assert row.reason in flat
        else:
            assert f"{row.error:.3g} ± {row.error_standard_error:.2g}" in shown
    assert f"{table.best.name} *" in shown
    assert max(map(len, shown.splitlines())) <= 88
    assert repr(table) == f"ComparisonTable(7 mechanisms, 10 simulations, smallest error: {table.best.name})"


def test_the_card_of_a_notebook(table):
    card = table._repr_html_()
    assert card.count("<tr>") == len(table) + 1
    assert f"{table.best.name}</th><td" in card
    assert "<svg" in card


def test_the_plot_marks_what_is_within_chance_of_the_smallest(table):
    axes = table.plot()
    shown = [row for row in table if not row.reason]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [row.name for row in shown]
    points = [one[0] for one in axes.containers]
    assert [point.get_xdata()[0] for point in points] == [row.error for row in shown]
    filled = [point.get_markerfacecolor() != "white" for point in points]
    assert filled == [row.within_chance for row in shown]
    assert any(filled)
    assert "standard error" in axes.get_xlabel()
    axes, more = (
        plt.subplots()[1],
        ps.compare(model=ps.BetaBernoulli(6, 12), n=9, target=ps.DP(1, 1e-6), simulations=1, plug_in=True),
    )
    assert more.plot(axes) is axes  # without standard errors
    plt.close("all")
