"""Features in whatever form people have them."""

import numpy as np
import parbals
import pytest
import scipy.sparse
from parbals.errors import InputError, ShapeError
from parbals.learner.features import FeatureTable, Preparation
from sklearn.preprocessing import StandardScaler

X = np.random.default_rng(0).standard_normal((30, 4))
POSITIONS = np.array([7, 2, 2, 29])


def forms():
    yield "numpy", lambda tmp: X
    yield "float32", lambda tmp: X.astype(np.float32)
    yield "fortran", lambda tmp: np.asfortranarray(X)
    yield "list", lambda tmp: X.tolist()
    yield "sparse", lambda tmp: scipy.sparse.csc_matrix(X)
    yield "sparse array", lambda tmp: scipy.sparse.csr_array(X)
    yield "path", saved
    yield "memory map", lambda tmp: np.load(saved(tmp), mmap_mode="r")
    yield "pandas", lambda tmp: pytest.importorskip("pandas").DataFrame(X, columns=list("abcd"))
    yield "polars", lambda tmp: pytest.importorskip("polars").DataFrame(X, schema=list("abcd"))
    yield (
        "arrow",
        lambda tmp: pytest.importorskip("pyarrow").table(dict(zip("abcd", X.T, strict=True))),
    )
    yield "torch", lambda tmp: pytest.importorskip("torch").from_numpy(X).requires_grad_()


def saved(folder):
    np.save(folder / "X.npy", X)
    return folder / "X.npy"


@pytest.mark.parametrize(("form", "make"), list(forms()), ids=[name for name, _ in forms()])
def test_rows_are_the_same_in_every_form(form, make, tmp_path):
    table = FeatureTable(make(tmp_path))
    assert (table.n_rows, table.n_columns) == (30, 4)
    np.testing.assert_allclose(table.rows(POSITIONS), X[POSITIONS], rtol=1e-6)
    np.testing.assert_allclose(np.concatenate([rows for _, rows in table.blocks(7)]), X, rtol=1e-6)


EXACT = [(name, make) for name, make in forms() if name != "float32"]  # other numbers, other batch


@pytest.mark.parametrize(("form", "make"), EXACT, ids=[name for name, _ in EXACT])
def test_every_form_gives_the_same_batch(form, make, tmp_path):
    active = parbals.ActiveLearner(make(tmp_path), [0, 1], strategy="coreset", random_state=0)
    active.tell([0, 1], [0, 1])
    expected = parbals.ActiveLearner(X, [0, 1], strategy="coreset", random_state=0)
    expected.tell([0, 1], [0, 1])
    assert active.ask(5).tolist() == expected.ask(5).tolist()


def test_a_bad_number_is_named_by_row_and_column_even_far_down(tmp_path):
    big = np.zeros((3_000_000, 2), np.float32)
    big[2_999_998, 1] = np.nan
    np.save(tmp_path / "big.npy", big)
    message = r"X_pool\[2999998, 1\] is nan; .* takes data frames with missing values"
    with pytest.raises(InputError, match=message):
        FeatureTable(tmp_path / "big.npy")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros((0, 3)), ShapeError, r"shape \(0, 3\)"),
        (np.zeros(5), ShapeError, r"shape \(5,\)"),
        ("missing.npy", InputError, "does not exist"),
        (np.array([["a", "b"]]), InputError, "not a rectangular array of numbers"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        FeatureTable(value)


def test_a_file_that_is_no_array_is_refused_and_never_unpickled(tmp_path):
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(InputError, match=r"not a numeric \.npy array"):
        FeatureTable(tmp_path / "text.npy")
    with open(tmp_path / "objects.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "|O", "fortran_order": False, "shape": (1, 1)}
        )
        file.write(b"cos\nsystem\n(S'touch /tmp/should-not-exist'\ntR.")
    with pytest.raises(InputError, match=r"not a numeric \.npy array"):
        FeatureTable(tmp_path / "objects.npy")


def test_texts_in_a_frame_are_shown_where_only_numbers_are_wanted():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "city": ["Oslo", "Rome"]})
    with pytest.raises(InputError, match="Oslo"):
        parbals.ActiveLearner(frame, [0, 1], features="numbers")


def test_a_memory_map_is_not_read_into_memory_as_a_whole(tmp_path):
    np.save(tmp_path / "X.npy", X)
    table = FeatureTable(tmp_path / "X.npy")
    assert isinstance(table.source, np.memmap)


def test_rows_from_all_over_a_mapped_file_come_in_order(tmp_path):
    big = np.arange(40_000, dtype=np.float32).reshape(10_000, 4)
    np.save(tmp_path / "big.npy", big)
    positions = np.random.default_rng(0).integers(0, 10_000, 3_000)
    np.testing.assert_array_equal(
        FeatureTable(tmp_path / "big.npy").rows(positions), big[positions]
    )


WIDE = np.random.default_rng(0).standard_normal((200, 6)) @ np.diag([9, 4, 2, 1, 0.1, 0.01]) + 5.0
POOL = FeatureTable(WIDE)


def test_nothing_happens_unless_asked_for():
    assert Preparation.fit(POOL, False, 0)(WIDE) is WIDE


def test_standardising_is_that_of_scikit_learn():
    prepared = Preparation.fit(POOL, True, 0)(WIDE)
    np.testing.assert_allclose(prepared, StandardScaler().fit_transform(WIDE), rtol=1e-9)


def test_a_constant_column_stays_finite():
    flat = np.column_stack([WIDE[:, 0], np.full(200, 7.0)])
    assert np.isfinite(Preparation.fit(FeatureTable(flat), True, 0)(flat)).all()


def test_a_broken_row_does_not_change_the_standardisation():
    rows = np.random.default_rng(0).standard_normal((300, 4))
    broken = rows.copy()
    broken[5] *= 100.0
    others = np.delete(rows, 5, axis=0)
    prepared = Preparation.fit(FeatureTable(broken), standardise=True, seed=0)
    np.testing.assert_allclose(prepared(others), StandardScaler().fit_transform(others))
