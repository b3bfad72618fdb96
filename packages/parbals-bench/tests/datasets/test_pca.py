"""PCA keeps 99 % of the pool's variance, whatever the precision, and sees the pool alone."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_bench.datasets.pca import PoolPCA
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import check_estimator


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((500, 20)) * np.geomspace(10, 0.01, 20) @ rng.standard_normal((20, 20))
        + 3.0
    )


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns about the array API it skips
def test_it_is_a_scikit_learn_transformer():
    """Every check that applies passes; scikit-learn itself skips the one on array-API input."""
    results = check_estimator(PoolPCA(), on_fail=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {
        "check_array_api_input"
    }


@pytest.mark.parametrize("variance", [0.5, 0.9, 0.99, 1.0])
def test_it_agrees_with_scikit_learn(pool, variance):
    ours, theirs = (
        PoolPCA(variance).fit(pool),
        PCA(variance if variance < 1 else None, svd_solver="full").fit(pool),
    )
    assert ours.n_components_ == theirs.n_components_
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-8
    )
    np.testing.assert_allclose(
        np.abs(ours.transform(pool)), np.abs(theirs.transform(pool)), rtol=1e-5, atol=1e-6
    )


def test_float16_is_widened_before_anything_is_added_up():
    """Neither the sum of these numbers nor that of their squares fits into float16."""
    wide = np.random.default_rng(1).normal(300, 100, (2000, 8))
    narrow = wide.astype(np.float16)
    features = PoolPCA().fit(narrow).transform(narrow)
    assert features.dtype == np.float32
    np.testing.assert_allclose(
        np.abs(features), np.abs(PoolPCA().fit_transform(narrow.astype(np.float64))), rtol=1e-3
    )


def test_constant_columns_have_no_weight(pool):
    with_constants = np.column_stack(
        [pool[:, :3], np.full(500, 0.1), pool[:, 3:], np.full(500, 1e6 / 3)]
    )
    fitted = PoolPCA(1.0).fit(with_constants)
    np.testing.assert_array_equal(fitted.components_[:, [3, 21]], 0)
    moved = with_constants.copy()
    moved[:, 3] = 7.0  # a test row may differ where the pool never did: that must not blow up
    np.testing.assert_allclose(fitted.transform(moved), fitted.transform(with_constants))


def test_a_memory_mapped_pool_is_read_in_place(pool, tmp_path):
    np.save(tmp_path / "pool.npy", pool)
    mapped = np.load(tmp_path / "pool.npy", mmap_mode="r")
    np.testing.assert_array_equal(PoolPCA().fit_transform(mapped), PoolPCA().fit_transform(pool))


def test_signs_are_fixed(pool):
    components = PoolPCA().fit(pool).components_
    assert (components[np.arange(len(components)), np.abs(components).argmax(axis=1)] > 0).all()


def test_a_row_depends_on_no_other_row_that_is_transformed(pool):
    fitted = PoolPCA().fit(pool[:300])
    np.testing.assert_allclose(
        fitted.transform(pool)[400], fitted.transform(pool[400:401])[0], rtol=1e-12
    )


def test_what_cannot_be_reduced_is_refused(pool):
    with pytest.raises(InputError, match="constant"):
        PoolPCA().fit(np.ones((5, 3)))
    pool[7, 2] = np.nan
    with pytest.raises(InputError, match="Row 7, column 2 is nan"):
        PoolPCA().fit(pool)
    with pytest.raises(InputError, match=r"variance is 1\.5"):
        PoolPCA(1.5).fit(np.eye(3))
