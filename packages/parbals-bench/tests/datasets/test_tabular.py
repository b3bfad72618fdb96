"""Tables become 0/1 features as the paper makes them; what is not in the pool has no say."""

import numpy as np
import pandas as pd
import pytest
from parbals_bench.datasets.tabular import TabularFeatures
from sklearn.preprocessing import KBinsDiscretizer


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    rng.permutation(200)
    columns = {
        "income": rng.lognormal(size=200),
        "chip": rng.integers(0, 2, 200),
        "rating": rng.integers(0, 6, 200),
    }
    return pd.DataFrame({"city": rng.choice(["Bonn", "Kiel", "Ulm"], 200), **columns})


def features_of(table, n_categorical=0, binning="values"):
    table = np.asarray(table)
    return TabularFeatures(n_categorical, binning=binning).fit(table).transform(table)


def test_ten_bins_hold_equally_many_rows(pool):
    features = features_of(pool[["income"]])
    assert features.shape == (200, 10)
    np.testing.assert_array_equal(features.sum(axis=0), 20)
    np.testing.assert_array_equal(features.sum(axis=1), 1)


def test_a_column_with_few_values_gets_a_bin_for_each(pool):
    """Deciles of a 0/1 column are 0 and 1: one bin between them would hold all rows."""
    features = features_of(pool[["chip", "rating"]])
    assert features.shape == (200, 2 + 6)
    np.testing.assert_array_equal(features[:, 1], pool["chip"])


def test_bins_of_quantiles_alone_are_those_of_pandas(pool):
    """Two values of a 0/1 column share a bin, and so do the two lowest ratings."""
    columns = pool[["income", "chip", "rating"]]
    features = features_of(columns, binning="qcut")
    codes = [pd.qcut(columns[name], 10, labels=False, duplicates="drop") for name in columns]
    np.testing.assert_array_equal(
        features, np.hstack([np.eye(code.max() + 1)[code] for code in codes])
    )
    assert features.shape[1] == 10 + 1 + 5


@pytest.mark.filterwarnings(
    "ignore:Bins whose width are too small", "ignore:Feature .* is constant"
)
def test_bins_of_quantiles_alone_are_those_of_scikit_learn(pool):
    """The paper's, it seems: as pandas', but the two highest ratings share a bin."""
    columns = pool[["income", "rating"]]
    usual = KBinsDiscretizer(10, encode="onehot-dense", quantile_method="linear", subsample=None)
    features = features_of(columns, binning="kbins")
    np.testing.assert_array_equal(features, usual.fit_transform(columns))
    assert features_of(pool[["chip"]], binning="kbins").shape[1] == 1


@pytest.mark.parametrize("rare", [0, 1])
def test_a_value_that_is_rare_keeps_its_bin(rare):
    column = np.full((1000, 1), 1.0 - rare)
    column[:3] = rare
    assert features_of(column).sum(axis=0).tolist() in ([3, 997], [997, 3])


def test_most_rows_at_the_largest_value_still_differ_from_the_others():
    column = np.concatenate([np.arange(20), np.full(980, 50)])[:, None]
    assert features_of(column).shape[1] == 2


def test_most_rows_at_zero_have_a_bin_of_their_own():
    column = np.concatenate([np.zeros(600), np.arange(1, 401)])[:, None]
    assert features_of(column)[:, 0].sum() == 600


def test_values_beyond_the_pool_fall_into_the_outer_bins(pool):
    encoder = TabularFeatures().fit(pool[["income"]].to_numpy())
    features = encoder.transform(np.array([[-1e9], [1e9]]))
    assert features.argmax(axis=1).tolist() == [0, 9]


def test_a_value_that_the_pool_did_not_have_goes_to_its_own_slot(pool):
    cities = pool[["city"]].to_numpy()
    encoder = TabularFeatures(1).fit(cities)
    assert encoder.transform(cities).shape[1] == 4
    assert encoder.transform(cities)[:, 3].sum() == 0
    others = np.array([["Köln"], ["Ulm"], [None]], object)
    assert encoder.transform(others).argmax(axis=1).tolist() == [3, 2, 3]


def test_missing_values_of_the_pool_are_a_value():
    cells = np.array([["a"], [None], ["b"], [""], [float("nan")]], dtype=object)
    assert features_of(cells, 1).sum(axis=0).tolist() == [1, 1, 3, 0]


def test_missing_numbers_count_as_the_mean_of_the_pool():
    column = np.arange(100, dtype=float)
    column[3] = np.nan
    encoder = TabularFeatures().fit(column[:, None])
    mean = np.array([[np.nanmean(column)]])
    missing = np.array([[np.nan]])
    np.testing.assert_array_equal(encoder.transform(missing), encoder.transform(mean))


def test_a_pool_without_a_single_number_in_a_column_still_works():
    cells = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    assert features_of(cells).shape == (2, 1 + 2)


def test_the_order_of_the_pool_does_not_matter(pool):
    shuffled = TabularFeatures(1).fit(pool.sample(frac=1, random_state=1).to_numpy())
    np.testing.assert_array_equal(shuffled.transform(pool.to_numpy()), features_of(pool, 1))
