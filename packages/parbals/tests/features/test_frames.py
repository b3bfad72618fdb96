"""Pools that are not plain matrices: frames with gaps, and wide sparse rows."""

import numpy as np
import parbals
import pytest
import scipy.sparse
from parbals.errors import InputError, ShapeError

GENERATOR = np.random.default_rng(3)
N = 60
AGE = GENERATOR.integers(20, 80, N).astype(float)
AGE[7] = np.nan
COLUMNS = {
    "age": AGE,
    "city": GENERATOR.choice(["Oslo", "Rome", "Bern"], N).tolist(),
    "member": GENERATOR.choice([True, False], N),
    "since": (np.datetime64("2020-01-01") + 37 * np.arange(N)).astype("datetime64[ns]"),
}
LABELS = ["yes" if city == "Oslo" else "no" for city in COLUMNS["city"]]


def pandas_frame():
    frame = pytest.importorskip("pandas").DataFrame(COLUMNS)
    return frame.astype({"city": "category"})


def polars_frame():
    return pytest.importorskip("polars").DataFrame(COLUMNS)


def arrow_table():
    return pytest.importorskip("pyarrow").Table.from_pandas(pandas_frame())


def learner(X, **options):
    fitted = parbals.ActiveLearner(X, ["no", "yes"], strategy="margin", random_state=0, **options)
    fitted.tell(range(20), LABELS[:20])
    return fitted


@pytest.mark.parametrize("make", [pandas_frame, polars_frame, arrow_table])
def test_a_frame_is_read_as_a_table_in_every_form(make, tmp_path):
    X = make()
    fitted = learner(X)
    expected = learner(pandas_frame())
    np.testing.assert_array_equal(fitted.pool.rows(np.arange(N)), expected.pool.rows(np.arange(N)))
    assert fitted.ask(3).tolist() == expected.ask(3).tolist()
    probs = fitted.predict_proba(X)
    right = [label == ("no", "yes")[p] for label, p in zip(LABELS, probs.argmax(1), strict=True)]
    assert np.mean(right) > 0.9, "the city tells the label"
    fitted.save(tmp_path / "a.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "a.parbals")
    np.testing.assert_array_equal(loaded.predict_proba(X), probs)
    assert loaded.ask(2).tolist() == fitted.ask(2).tolist()
    fitted.save(tmp_path / "b.parbals", include_features=False)
    again = parbals.ActiveLearner.load(tmp_path / "b.parbals", X_pool=X)
    np.testing.assert_array_equal(again.predict_proba(X), probs)


def test_new_rows_need_the_columns_but_not_their_order():
    frame = pandas_frame()
    fitted = learner(frame)
    reordered = frame[["since", "member", "city", "age"]].assign(extra=1)
    np.testing.assert_array_equal(fitted.predict_proba(reordered), fitted.predict_proba(frame))
    with pytest.raises(ShapeError, match="no column 'city'"):
        fitted.predict_proba(frame.drop(columns="city"))
    with pytest.raises(InputError, match="not a data frame"):
        fitted.predict_proba(np.zeros((2, 4)))


def test_the_batch_says_what_was_left_out():
    fitted = learner(pandas_frame().assign(id=range(N), code=[f"x{i}" for i in range(N)]))
    assert fitted.choose(1).notes[:2] == (
        "'id' is left out: it only identifies rows.",
        "'code' is left out: it only identifies rows.",
    )


@pytest.mark.parametrize("beside", [[], ["age", "city"]])
def test_texts_are_read_by_their_words(beside, tmp_path):
    city = COLUMNS["city"]
    notes = [f"caller {i} of {city[i]} asked about the {i % 7} day ticket" for i in range(N)]
    frame = pandas_frame()[beside].assign(note=notes)
    fitted = learner(frame)
    assert fitted.choose(1).notes[0] == "'note': read as text, by words, form and meaning."
    right = [label == guess for label, guess in zip(LABELS, fitted.predict(frame), strict=True)]
    assert np.mean(right[20:]) > 0.9, "the note tells the label"
    rows = fitted.pool.rows(np.arange(N))
    lengths = np.sqrt(np.square(rows).sum(axis=1).mean())
    assert lengths == pytest.approx(3.0 * np.sqrt(1 + bool(beside)), rel=1e-3)
    fitted.save(tmp_path / "a.parbals", include_features=False)
    loaded = parbals.ActiveLearner.load(tmp_path / "a.parbals", X_pool=frame)
    np.testing.assert_array_equal(loaded.pool.rows(np.arange(N)), rows)
    gaps = frame.assign(note=[None, *notes[1:]])
    assert fitted.predict_proba(gaps).shape == (N, 2)
    with pytest.raises(ShapeError, match="no column 'note'"):
        fitted.predict_proba(frame.drop(columns="note").assign(other=1))


def test_a_frame_of_numbers_is_taken_as_it_is():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((30, 3))
    table = learner(pandas.DataFrame(X, columns=list("abc"))).pool
    assert table.encoding is None
    np.testing.assert_array_equal(table.rows(np.arange(30)), X)


def wide():
    """Rows about one of two topics, in 3,000 sparse columns."""
    values = np.random.default_rng(0).random((N, 3_000))
    rows = scipy.sparse.csr_array(np.where(values < 0.01, 100.0 * values, 0.0))
    topic = np.array([label == "yes" for label in LABELS])
    marks = scipy.sparse.csr_array((np.ones(N), (np.arange(N), np.where(topic, 5, 6))), rows.shape)
    return scipy.sparse.csr_array(rows + 3 * marks)


def test_wide_sparse_rows_are_reduced_and_that_is_said(tmp_path):
    X = wide()
    fitted = learner(X)
    assert fitted.pool.n_columns == N - 1
    assert fitted.choose(1).notes[0].startswith("The 3,000 sparse columns were reduced to 59")
    probs = fitted.predict_proba(X)
    right = [label == ("no", "yes")[p] for label, p in zip(LABELS, probs.argmax(1), strict=True)]
    assert np.mean(right) > 0.9
    np.testing.assert_allclose(fitted.predict_proba(X.toarray()), probs, atol=1e-5)
    fitted.save(tmp_path / "a.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "a.parbals")
    np.testing.assert_array_equal(loaded.predict_proba(X), probs)
    with pytest.raises(ShapeError, match="the pool has 3000 columns"):
        fitted.predict_proba(X[:, :100])
    assert learner(X, features="numbers").pool.n_columns == 3_000


def test_sparse_features_of_any_model_are_reduced():
    X = wide()
    probs = np.random.default_rng(0).dirichlet([1, 1], (N, 4))
    batch = parbals.select_batch(
        probs,
        batch_size=3,
        strategy="coreset",
        pool_features=X,
        labelled_features=X[:2],
        random_state=0,
    )
    assert "reduced" in batch.notes[0]
    dense = parbals.select_batch(
        probs,
        batch_size=3,
        strategy="coreset",
        pool_features=X.toarray(),
        labelled_features=X[:2].toarray(),
        random_state=0,
    )
    assert set(batch.indices.tolist()) == set(dense.indices.tolist())


def test_sparse_rows_of_a_fitted_model_are_filled_in():
    X = wide()[:, :300]
    model = parbals.BayesianLogisticRegression(inference="ep", random_state=0)
    model.fit(X[:20].toarray(), LABELS[:20])
    batch = [
        parbals.select_batch_from_model(
            model, rows, batch_size=2, strategy="margin", random_state=0
        ).indices.tolist()
        for rows in (X, X.toarray().astype(np.float32))
    ]
    assert batch[0] == batch[1]


def test_a_frame_beside_predictive_samples_is_read_as_a_table():
    frame = pandas_frame().assign(id=range(N))
    probs = np.random.default_rng(0).dirichlet([1, 1], (N, 4))
    batch = parbals.select_batch(
        probs,
        batch_size=3,
        strategy="coreset",
        pool_features=frame,
        labelled_features=frame[:5],
        random_state=0,
    )
    assert batch.notes[0] == "'id' is left out: it only identifies rows."


class TestTexts:
    """A list, array or column of texts is a pool, too."""

    TEXTS = tuple(f"{city} is where {n} people met" for n, city in enumerate(COLUMNS["city"]))

    def kinds(self):
        pandas = pytest.importorskip("pandas")
        polars = pytest.importorskip("polars")
        arrow = pytest.importorskip("pyarrow")
        yield from (list(self.TEXTS), self.TEXTS, np.array(self.TEXTS), polars.Series(self.TEXTS))
        yield from (pandas.Series(self.TEXTS), arrow.array(self.TEXTS))

    def test_every_kind_is_the_frame_of_one_column(self):
        frame = pytest.importorskip("pandas").DataFrame({"text": self.TEXTS})
        expected_probs = learner(frame).predict_proba(frame)
        for texts in self.kinds():
            fitted = learner(texts)
            np.testing.assert_allclose(fitted.predict_proba(texts), expected_probs, rtol=1e-6)
            assert fitted.pool.notes == ("'text': read as text, by words, form and meaning.",)

    def test_one_text_is_predicted_also_after_loading(self, tmp_path):
        fitted = learner(self.TEXTS)
        fitted.save(tmp_path / "x.parbals")
        again = parbals.ActiveLearner.load(tmp_path / "x.parbals")
        for each_learner in (fitted, again):
            yes = each_learner.predict_proba(["Oslo is where they met", "Rome is where they met"])[
                :, 1
            ]
            assert yes[0] > yes[1]

    def test_short_texts_and_gaps_are_texts_as_well(self):
        fitted = learner([None, float("nan"), "", *COLUMNS["city"][3:]])
        assert fitted.predict_proba(["Oslo"])[0, 1] > fitted.predict_proba(["Bern"])[0, 1]

    def test_what_is_no_text_is_refused_as_before(self):
        for X in (["a", 1], "a text", np.array(["2024-01-01"], "M8[D]")):
            with pytest.raises(InputError):
                parbals.ActiveLearner(X, ["no", "yes"])
        with pytest.raises(InputError):
            parbals.ActiveLearner(self.TEXTS, ["no", "yes"], features="numbers")
