"""PCA keeps 99 % of the pool's variance, whatever the precision, and sees the pool alone."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_bench.datasets.embedded import reduced
from sklearn.decomposition import PCA


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((500, 20)) * np.geomspace(10, 0.01, 20) @ rng.standard_normal((20, 20))
        + 3.0
    )


def of_pool(pool):
    return reduced({"pool": pool}, "pool")["pool"]


def test_it_agrees_with_scikit_learn(pool):
    ours = of_pool(pool)
    theirs = PCA(0.99, svd_solver="full").fit_transform(pool)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=1e-5, atol=1e-6)


def test_float16_is_widened_before_anything_is_added_up():
    """Neither the sum of these numbers nor that of their squares fits into float16."""
    wide = np.random.default_rng(1).normal(300, 100, (2000, 8))
    narrow = wide.astype(np.float16)
    features = of_pool(narrow)
    assert features.dtype == np.float32
    np.testing.assert_allclose(
        np.abs(features), np.abs(of_pool(narrow.astype(np.float64))), rtol=1e-3
    )


def test_constant_columns_have_no_weight(pool):
    with_constants = np.column_stack(
        [pool[:, :3], np.full(500, 0.1), pool[:, 3:], np.full(500, 1e6 / 3)]
    )
    moved = with_constants.copy()
    moved[:, 3] = 7.0  # a test row may differ where the pool never did: that must not blow up
    features = reduced({"pool": with_constants, "test": moved}, "pool")
    np.testing.assert_allclose(features["test"], features["pool"])


def test_a_memory_mapped_pool_is_read_in_place(pool, tmp_path):
    np.save(tmp_path / "pool.npy", pool)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    np.testing.assert_array_equal(of_pool(mapped), of_pool(pool))


def test_a_row_depends_on_no_other_row_but_the_pools(pool):
    features = reduced({"pool": pool[:300], "all": pool, "one": pool[400:401]}, "pool")
    np.testing.assert_allclose(features["all"][400], features["one"][0], rtol=1e-12)


def test_what_cannot_be_reduced_is_refused(pool):
    with pytest.raises(InputError, match="constant"):
        of_pool(np.ones((5, 3)))
    pool[7, 2] = np.nan
    with pytest.raises(InputError, match="Row 7, column 2 is nan"):
        of_pool(pool)
