"""The encoder ``shapes``: edge directions and colours, whatever the lighting."""

import numpy as np
from parbals_label.encoders.plain import SHAPES_SIDE, shapes

STRIPES = np.where(np.arange(SHAPES_SIDE) // 6 % 2, 200, 50).astype(np.uint8)
DOWN = np.broadcast_to(STRIPES[None, :, None], (SHAPES_SIDE, SHAPES_SIDE, 3))
ACROSS = np.broadcast_to(STRIPES[:, None, None], (SHAPES_SIDE, SHAPES_SIDE, 3))
EDGES = slice(0, 900)


def test_lines_that_run_another_way_are_far_and_shifted_ones_near():
    moved = np.roll(DOWN, 1, axis=1)
    rows = shapes(np.stack([DOWN, moved, ACROSS]))[:, EDGES]
    assert rows.shape == (3, 900)
    assert rows[0] @ rows[1] > 2 * (rows[0] @ rows[2])


def test_edges_hardly_change_with_the_light_and_colours_do():
    rows = shapes(np.stack([DOWN, DOWN // 2]))
    np.testing.assert_allclose(rows[0, EDGES], rows[1, EDGES], atol=0.01)
    assert rows[0, 900:].sum() > 1.8 * rows[1, 900:].sum()


def test_an_even_image_has_no_edges():
    rows = shapes(np.full((1, SHAPES_SIDE, SHAPES_SIDE, 3), 90, np.uint8))
    np.testing.assert_array_equal(rows[:, EDGES], 0)
    assert np.ptp(rows[:, 900:]) == 0
