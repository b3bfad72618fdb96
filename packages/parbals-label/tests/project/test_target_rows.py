"""Rows of a target set: durable, verified, drawn in proportion to their weights."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.project.target_rows import TargetRow, joined_rows, weight_of, weighted_sample


@pytest.mark.parametrize("cell", ["", None, "many", "nan", float("inf"), "-1", -0.5])
def test_a_weight_is_a_finite_number_of_zero_or_more(cell):
    with pytest.raises(InputError, match="a weight is a finite number"):
        weight_of(cell, "Row 3 of new.csv, column 'w',")


def test_weights_are_read_from_numbers_and_texts():
    assert weight_of("2.5", "") == 2.5
    assert weight_of(0, "") == 0.0


def test_rows_are_drawn_in_proportion_to_their_weights():
    """Systematic resampling: each row is drawn ⌊n w/Σw⌋ or ⌈n w/Σw⌉ times, on average n w/Σw."""
    weights = np.array([9.0, 1.0, 0.0, 4.0, 4.0, 1.0, 1.0])
    size = round(weights.sum() ** 2 / np.square(weights).sum())
    expected = size * weights / weights.sum()
    n_seeds = 4_000
    counts = np.array(
        [np.bincount(weighted_sample(weights, s), minlength=7) for s in range(n_seeds)]
    )
    assert (counts.sum(axis=1) == size).all()
    assert (counts >= np.floor(expected - 1e-9)).all()
    assert (counts <= np.ceil(expected + 1e-9)).all()
    # A count is Bernoulli plus a constant: its standard error is at most 0.5 / √4,000 = 0.008.
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=5 * 0.008)


@pytest.mark.parametrize("factor", [1e-300, 1.0, 1e300])
def test_equal_weights_draw_every_row_once_whatever_their_unit(factor):
    assert weighted_sample(np.full(5, factor), 0).tolist() == [0, 1, 2, 3, 4]
    assert len(weighted_sample(factor * np.array([1.0, 2.0, 3.0]), 0)) == 3


def test_one_row_with_all_the_weight_is_the_target():
    assert weighted_sample(np.array([0.0, 3.0, 0.0]), 1).tolist() == [1]


@pytest.mark.parametrize("weight", [5e-324, 1e-320, 1.0, 1e308])
def test_a_file_gets_its_share_whatever_the_unit_of_its_weights(weight):
    rows = [TargetRow(str(number), weight=weight) for number in range(40)]
    joined = joined_rows([TargetRow("a"), TargetRow("b")], rows, share=0.75)
    weights = np.array([row.weight for row in joined])
    assert weights[2:].sum() / weights.sum() == pytest.approx(0.75)
