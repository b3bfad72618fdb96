import numpy as np
import pytest
from parbals.strategies.universes.leaders import Leaders, top_positions


def by_definition(values, free, n):
    positions = [position for position in range(len(values)) if free[position]]
    return sorted(positions, key=lambda position: (-values[position], position))[:n]


@pytest.mark.parametrize("n", [1, 5, 39, 41, 200])
@pytest.mark.parametrize("n_values", [3, 1000])  # many ties, or hardly any
def test_leaders_are_the_highest_values_however_they_change(n, n_values):
    generator = np.random.default_rng(n)
    values = generator.integers(0, n_values, 200).astype(float)
    free = generator.random(200) < 0.9
    leaders = Leaders(n_leaders=40)
    for _ in range(60):
        top = leaders.top(values, free, n)
        assert top.tolist() == by_definition(values, free, n)
        assert top_positions(values, free, n).tolist() == top.tolist()
        changed = generator.choice(top, size=min(len(top), 7), replace=False)
        values[changed] *= generator.choice([0.5, 1.0, 1.1], size=len(changed))
        free[top[0]] = False


def test_all_values_are_looked_at_after_other_changes():
    values = np.arange(100.0)
    free = np.ones(100, bool)
    leaders = Leaders(n_leaders=10)
    leaders.top(values, free, 2)
    values = values[::-1].copy()
    leaders.forget()
    assert leaders.top(values, free, 2).tolist() == [0, 1]


def test_a_step_looks_at_the_leaders_alone():
    """Partitioning a million values takes longer than a step on an accelerator."""
    values = np.arange(1000.0)
    free = np.ones(1000, bool)
    leaders = Leaders(n_leaders=100)
    leaders.top(values, free, 10)
    values[:900] = np.nan  # would be noticed: nothing compares with them
    assert leaders.top(values, free, 10).tolist() == list(range(999, 989, -1))


def test_the_highest_come_in_their_order_and_equals_in_that_of_the_pool():
    values = np.array([1.0, 5.0, 3.0, 5.0, 9.0, 3.0])
    free = np.ones(6, bool)
    free[4] = False
    assert top_positions(values, free, 3).tolist() == [1, 3, 2]
    assert top_positions(values, free, 9).tolist() == [1, 3, 2, 5, 0]
