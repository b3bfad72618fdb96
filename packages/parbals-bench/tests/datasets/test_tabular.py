"""Tables become 0/1 features as the paper makes them; what is not in the pool has no say."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from parbals.errors import InputError
from parbals.features.reading import looks_like_id
from parbals_bench.datasets.tabular import CellError, TabularFeatures
from sklearn.base import clone
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import check_estimator


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "id": rng.permutation(200) * 7,
            "income": rng.lognormal(size=200),
            "chip": rng.integers(0, 2, 200),
            "rating": rng.integers(0, 6, 200),
            "city": rng.choice(["Bonn", "Kiel", "Ulm"], 200),
        }
    )


@pytest.mark.filterwarnings("ignore")  # scikit-learn warns about the array API it skips
def test_it_is_a_scikit_learn_transformer():
    """Every check that applies passes; scikit-learn itself skips the one on array-API input."""
    results = check_estimator(TabularFeatures(), on_fail=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {
        "check_array_api_input"
    }


def test_ten_bins_hold_equally_many_rows(pool):
    features = TabularFeatures().fit_transform(pool[["income"]])
    assert features.shape == (200, 10)
    np.testing.assert_array_equal(features.sum(axis=0), 20)
    np.testing.assert_array_equal(features.sum(axis=1), 1)


def test_a_column_with_few_values_gets_a_bin_for_each(pool):
    """Deciles of a 0/1 column are 0 and 1: one bin between them would hold all rows."""
    features = TabularFeatures().fit_transform(pool[["chip", "rating"]])
    assert features.shape == (200, 2 + 6)
    np.testing.assert_array_equal(features[:, 1], pool["chip"])


def test_bins_of_quantiles_alone_are_those_of_pandas(pool):
    """Two values of a 0/1 column share a bin, and so do the two lowest ratings."""
    columns = pool[["income", "chip", "rating"]]
    features = TabularFeatures(binning="qcut").fit_transform(columns)
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
    encoder = TabularFeatures(binning="kbins").fit(columns)
    np.testing.assert_array_equal(encoder.transform(columns), usual.fit_transform(columns))
    assert TabularFeatures(binning="kbins").fit_transform(pool[["chip"]]).shape[1] == 1
    ratings = [name for name in encoder.get_feature_names_out() if "rating" in name]
    assert ratings == [
        "rating < 1",
        "1 ≤ rating < 2",
        "2 ≤ rating < 3",
        "3 ≤ rating < 4",
        "rating ≥ 4",
    ]


def test_an_unknown_binning_is_refused(pool):
    with pytest.raises(
        InputError, match="binning is 'deciles'; choose one of: values, kbins, qcut"
    ):
        TabularFeatures(binning="deciles").fit(pool)


@pytest.mark.parametrize("rare", [0, 1])
def test_a_value_that_is_rare_keeps_its_bin(rare):
    column = np.full((1000, 1), 1.0 - rare)
    column[:3] = rare
    assert TabularFeatures().fit_transform(column).sum(axis=0).tolist() in ([3, 997], [997, 3])


def test_most_rows_at_the_largest_value_still_differ_from_the_others():
    column = np.concatenate([np.arange(20), np.full(980, 50)])[:, None]
    assert TabularFeatures(dropped=[]).fit_transform(column).shape[1] == 2


def test_most_rows_at_zero_have_a_bin_of_their_own():
    column = np.concatenate([np.zeros(600), np.arange(1, 401)])[:, None]
    features = TabularFeatures().fit_transform(column)
    assert features[:, 0].sum() == 600


def test_values_beyond_the_pool_fall_into_the_outer_bins(pool):
    encoder = TabularFeatures().fit(pool[["income"]])
    features = encoder.transform(pd.DataFrame({"income": [-1e9, 1e9]}))
    assert features.argmax(axis=1).tolist() == [0, 9]


def test_a_value_that_the_pool_did_not_have_goes_to_its_own_slot(pool):
    encoder = TabularFeatures().fit(pool[["city"]])
    assert encoder.get_feature_names_out().tolist() == [
        "city = Bonn",
        "city = Kiel",
        "city = Ulm",
        "city is new",
    ]
    assert encoder.transform(pool[["city"]])[:, 3].sum() == 0
    assert encoder.transform(pd.DataFrame({"city": ["Köln", "Ulm", None]})).argmax(
        axis=1
    ).tolist() == [3, 2, 3]


def test_missing_values_of_the_pool_are_a_value():
    cells = np.array([["a"], [None], ["b"], [""], [float("nan")]], dtype=object)
    assert TabularFeatures(dropped=[]).fit_transform(cells).sum(axis=0).tolist() == [1, 1, 3, 0]


def test_missing_numbers_count_as_the_mean_of_the_pool():
    column = np.arange(100, dtype=float)
    column[3] = np.nan
    encoder = TabularFeatures(dropped=[]).fit(column[:, None])
    mean = np.nanmean(column)
    np.testing.assert_array_equal(encoder.transform([[np.nan]]), encoder.transform([[mean]]))


def test_a_pool_without_a_single_number_in_a_column_still_works():
    cells = np.array([[np.nan, 1.0], [np.nan, 2.0]])
    assert TabularFeatures().fit_transform(cells).shape == (2, 1 + 2)


def test_numbers_that_are_codes_can_be_declared(pool):
    encoder = TabularFeatures(categorical=["rating"]).fit(pool[["rating", "income"]])
    assert encoder.get_feature_names_out()[:7].tolist() == [
        *(f"rating = {i}" for i in range(6)),
        "rating is new",
    ]


def test_the_same_values_as_numbers_as_text_and_in_any_frame_give_the_same_features(pool):
    wanted = TabularFeatures().fit_transform(pool)
    np.testing.assert_array_equal(TabularFeatures().fit_transform(pool.astype(str)), wanted)
    np.testing.assert_array_equal(
        TabularFeatures().fit_transform(pl.from_dict(pool.to_dict("list"))), wanted
    )
    np.testing.assert_array_equal(
        TabularFeatures(dropped=[0]).fit_transform(pool.to_numpy(object)), wanted
    )


def test_the_order_of_the_pool_does_not_matter(pool):
    shuffled = TabularFeatures().fit(pool.sample(frac=1, random_state=1))
    np.testing.assert_array_equal(shuffled.transform(pool), TabularFeatures().fit_transform(pool))


class TestIds:
    @pytest.mark.parametrize("name", ["id", "ID", "", "Unnamed: 0", "row", "uuid"])
    def test_by_name(self, name):
        assert looks_like_id(name, np.array([1.0, 1.0]))

    def test_a_running_number(self):
        assert looks_like_id("no", np.random.default_rng(0).permutation(50) + 1000)

    def test_text_that_hardly_repeats(self):
        assert looks_like_id("name", np.array([f"person {i}" for i in range(50)], object))

    @pytest.mark.parametrize(
        "cells",
        [np.linspace(0, 1, 50), np.arange(50) * 3, np.array(["a", "b"] * 25, object), np.arange(5)],
    )
    def test_real_columns_are_kept(self, cells):
        assert not looks_like_id("x", cells)

    def test_they_are_left_out(self, pool):
        assert not any(
            name.startswith("id") for name in TabularFeatures().fit(pool).get_feature_names_out()
        )

    def test_nothing_left_is_refused(self, pool):
        with pytest.raises(InputError, match="only numbers the rows"):
            TabularFeatures().fit(pool[["id"]])


class TestRefused:
    def test_text_in_a_column_of_numbers_is_named(self, pool):
        encoder = TabularFeatures().fit(pool[["income", "city"]])
        with pytest.raises(InputError, match="Row 1 of column 'income' is 'many'"):
            encoder.transform(pd.DataFrame({"income": [1.0, "many"], "city": ["Ulm", "Ulm"]}))

    @pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
    def test_an_infinite_number_does_not_make_texts_of_a_column(self, pool, cell):
        column = pool[["income"]].astype(object)
        encoder = TabularFeatures().fit(column)
        column.iloc[7, 0] = cell
        for refuse in (TabularFeatures().fit, encoder.transform):
            with pytest.raises(
                CellError, match=f"Row 7 of column 'income' is {cell}, which is not a usable number"
            ) as e:
                refuse(column)
            assert (e.value.row, e.value.place) == (7, 0)

    def test_a_word_that_reads_like_a_number_is_a_word_among_words(self):
        cells = np.array([["inf"], ["sup"], ["inf"]], object)
        assert TabularFeatures(dropped=[]).fit_transform(cells).shape == (3, 3)

    def test_a_column_that_is_not_there(self, pool):
        with pytest.raises(InputError, match="dropped names the column 'age'"):
            TabularFeatures(dropped=["age"]).fit(pool)

    @pytest.mark.parametrize("n_bins", [1, 2.5, "ten"])
    def test_a_number_of_bins_that_cannot_be(self, pool, n_bins):
        with pytest.raises(InputError, match="n_bins"):
            clone(TabularFeatures(n_bins=n_bins)).fit(pool)
